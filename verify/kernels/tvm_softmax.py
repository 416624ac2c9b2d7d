"""TVM's relax.op.nn.softmax and log_softmax, legalised and compiled for LLVM on a CPU.

Read in apache-tvm 0.27.0, topi/nn/softmax.h (and relax/transform/legalize_ops/nn.py): the maximum,
x - m, exp, the sum, one addition after another, and the division, or the difference from the
logarithm, each in the format of the input.  exp and log are LLVM's intrinsics, which call the C
library's in binary32 and round for binary16.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from verify.kernels import kernel
from verify.kernels._softmax import softmax_model
from verify.kernels._tvm import missing, run

FORMATS = ("fp16", "fp32")
SOURCE = "apache-tvm 0.27.0.post1: topi/nn/softmax.h, relax/transform/legalize_ops/nn.py"


def model(name: str) -> dict[str, Any]:
    """Every step in the input format."""
    return softmax_model(name, inner=name, row_sum_order="sequential")


SHARED: dict[str, Any] = {
    "formats": FORMATS,
    "devices": ("cpu",),
    "model": {name: model(name) for name in FORMATS},
    "without": ("empty",),
    "unavailable": missing,
    "libraries": ("apache-tvm",),
    "source": SOURCE,
}


@kernel(name="tvm-softmax", operation="softmax", summary="TVM relax.op.nn.softmax, LLVM", **SHARED)
def softmax(x: Tensor) -> Tensor:
    """x (rows, n)."""
    return run("softmax", [x], ["rn"], lambda variables: _nn().softmax(variables[0], axis=-1))


@kernel(
    name="tvm-log-softmax",
    operation="log_softmax",
    summary="TVM relax.op.nn.log_softmax, LLVM",
    **SHARED,
)
def log_softmax(x: Tensor) -> Tensor:
    """x (rows, n)."""
    return run(
        "log_softmax", [x], ["rn"], lambda variables: _nn().log_softmax(variables[0], axis=-1)
    )


def _nn() -> Any:
    from tvm import relax

    return relax.op.nn
