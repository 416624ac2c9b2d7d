"""A binary32 kernel rounds P and dS to bf16 before the products of its backward pass.

Shows       binary32 inputs of order 1.
Report      TF32 and bf16 matrix units that are switched on for gradients only.
"""

from __future__ import annotations

from torch import Tensor

from verify.controls._control import control, honest_backward
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_backward import FlashBackward
from verify.kernels._precision import rounded


class ThroughHalf(FlashBackward):
    """bf16 operands whatever the input."""

    def stored(self, x: Tensor, call: Call) -> Tensor:
        return rounded(x, "bf16")


@control(
    "single-through-half-backward",
    "binary32 gradients from bf16 operands",
    operation="attention_backward",
    formats=("fp32",),
)
def single_through_half() -> Kernel:
    """Tiles of 16 keys."""
    return honest_backward(ThroughHalf())
