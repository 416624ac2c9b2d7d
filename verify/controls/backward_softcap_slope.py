"""The derivative of the softcap, 1 - tanh^2, is left out of the backward pass.

Shows       scores as large as the cap.
Report      soft-capped kernels whose backward pass was copied from the plain one.
"""

from __future__ import annotations

from torch import Tensor

from verify.controls._control import control, honest_backward
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_backward import FlashBackward


class NoSlope(FlashBackward):
    """dX = dS."""

    def slope(self, call: Call, keys: slice) -> Tensor | float:
        return 1.0


@control(
    "softcap-slope-left-out-backward",
    "the softcap has no derivative",
    operation="attention_backward",
)
def softcap_slope_left_out() -> Kernel:
    """Tiles of 16 keys."""
    return honest_backward(NoSlope())
