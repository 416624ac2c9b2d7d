"""OpenVINO's Softmax-8 on the CPU plugin, along the last axis, INFERENCE_PRECISION_HINT = f32.

The plugin computes in binary32 and rounds once; it normalises by a product with the reciprocal of
the sum.  The exponential is that of `openvino_sdpa`.  bf16 results that are subnormal become zero:
vcvtneps2bf16, with which processors with AVX512_BF16 round, flushes them (Intel SDM, vol. 2).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from verify.kernels import kernel
from verify.kernels._installed import needs
from verify.kernels._openvino import run
from verify.kernels._precision import DTYPES
from verify.kernels._softmax import softmax_model
from verify.kernels.openvino_sdpa import EXPONENTIAL


@kernel(
    name="openvino-softmax",
    operation="softmax",
    summary="OpenVINO Softmax on the CPU, INFERENCE_PRECISION_HINT = f32",
    devices=("cpu",),
    model={
        name: softmax_model(name, **EXPONENTIAL, flush_to_zero=name == "bf16") for name in DTYPES
    },
    without=("empty",),
    unavailable=needs("openvino", extra="openvino"),
    libraries=("openvino",),
    refuted=dict.fromkeys(DTYPES, "a NaN shows in its own place only: the rest of its row is 0"),
    source="openvino 2026.4.1: intel_cpu/src/nodes/softmax.cpp, oneDNN jit_uni_softmax",
)
def softmax(x: Tensor) -> Tensor:
    """x (rows, n)."""
    return run("softmax", [x], _graph)


def _graph(parameters: list[Any]) -> Any:
    from openvino import opset13 as opset

    return opset.softmax(parameters[0], -1)
