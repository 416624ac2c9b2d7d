"""OpenVINO's ScaledDotProductAttention-13 on the CPU plugin.

The operation's specification (docs: operation-specs/sequence/scaled-dot-product-attention.rst)
says: `causal` has the top-left corner and ignores the mask; a boolean mask adds 0 or -inf; a row
whose keys are all removed is therefore NaN.

The arithmetic on openvino 2026.4.1: the operation is decomposed
(transformations/op_conversions/scaled_dot_product_attention_decomposition.cpp), so that q is
multiplied by the scale, which has the type of q, before QK^T; softmax normalises by a reciprocal
(`stored_row_sum` stands for its rounding) before PV.  With INFERENCE_PRECISION_HINT = f32:

fp32, fp16   everything is binary32 between the inputs and one rounding of the output
bf16         the scaled q and P are rounded to bf16 (the compiled graph shows these nodes as bf16);
             scores, softmax and accumulators are binary32

exp is the plugin's polynomial (intel_cpu jit_exp_emitter; the same constants in
nodes/kernels/scaled_attn/softmax_kernel.hpp): 9.3e-8 from the polynomial, 2.5e-7 from ln 2 in one
word, the rest from roundings: below 5e-7.  It forms 2^n as 2 times 2^(n-1) by its exponent bits,
which are 0 for n = -126: so it gives zero for every value below 2^-125.5 (1.66e-38), not only for
subnormal ones.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from verify.kernels import kernel
from verify.kernels._installed import needs
from verify.kernels._masks import one_mask
from verify.kernels._openvino import run
from verify.kernels._precision import DTYPES

EXPONENTIAL: dict[str, Any] = {"exp_relative": 5e-7, "flush_exp": True, "exp_zero_below": 1.68e-38}
SOURCE = (
    "openvino 2026.4.1: operation-specs/sequence/scaled-dot-product-attention.rst, "
    "scaled_dot_product_attention_decomposition.cpp, intel_cpu/src/nodes/kernels/scaled_attn"
)


def model(name: str) -> dict[str, Any]:
    """q scaled first; only bf16 inputs see bf16 between."""
    inner = "bf16" if name == "bf16" else "fp32"
    return {
        "name": "openvino-sdpa",
        "input": name,
        "output": name,
        "scale_position": "query",
        "scale_format": name,
        "scaled_operands": inner,
        "p_format": inner,
        "p_normalised": True,
        "stored_row_sum": "fp32",
        **EXPONENTIAL,
        "flush_to_zero": name == "bf16",
        "block": None,
    }


@kernel(
    name="openvino-sdpa",
    operation="attention",
    summary="OpenVINO ScaledDotProductAttention on the CPU, INFERENCE_PRECISION_HINT = f32",
    devices=("cpu",),
    model={name: model(name) for name in DTYPES},
    corner="top-left",
    empty_row="nan",
    masked_nonfinite="leaks",
    without=("gqa", "empty"),
    unavailable=needs("openvino", extra="openvino"),
    libraries=("openvino",),
    source=SOURCE,
)
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """q, k (batch, heads, n, d), v (batch, heads, n_k, d_v)."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    inputs = [q, k, v, torch.tensor(scale, dtype=q.dtype)]
    joined = one_mask(q, k, causal, mask, bias)
    alone = causal and joined is None
    if joined is not None:
        inputs.append(joined)
    return run("sdpa-causal" if alone else "sdpa", inputs, _graph(alone))


def _graph(causal: bool) -> Any:
    def build(parameters: list[Any]) -> Any:
        import numpy as np
        from openvino import opset13 as opset

        q, k, v, scale, *mask = parameters
        # an attention mask must be there for a scale to be; a scalar 0 stands for none
        none = opset.convert_like(opset.constant(np.float32(0)), q)
        return opset.scaled_dot_product_attention(
            q, k, v, attention_mask=mask[0] if mask else none, scale=scale, causal=causal
        )

    return build
