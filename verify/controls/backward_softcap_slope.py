"""The derivative of the softcap, 1 - tanh^2, is left out of the backward pass.

Shows       scores as large as the cap; `masked_only`: where keys are removed besides.
Report      soft-capped kernels whose backward pass was copied from the plain one.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from verify.controls._control import control, honest_backward
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_backward import FlashBackward


@dataclass(frozen=True)
class NoSlope(FlashBackward):
    """dX = dS; with `masked_only` in calls that remove keys."""

    masked_only: bool = False

    def slope(self, call: Call, keys: slice) -> Tensor | float:
        if self.masked_only and bool(call.visible.all()):
            return super().slope(call, keys)
        return 1.0


@control(
    "softcap-slope-left-out-backward",
    "the softcap has no derivative",
    operation="attention_backward",
)
def softcap_slope_left_out(masked_only: bool = False) -> Kernel:
    """`masked_only`: right where every query sees every key.  Tiles of 16 keys."""
    return honest_backward(NoSlope(masked_only=masked_only))
