"""dS = P dP: the row's D = sum dO O is not subtracted.

Shows       V with an offset, so that dP and D are large and nearly equal.
Report      hand-written backward passes of softmax that forget its normalisation.
"""

from __future__ import annotations

from torch import Tensor

from verify.controls._control import control, honest_backward
from verify.kernels._attention import Kernel
from verify.kernels._attention_backward import FlashBackward, Saved


class NoDelta(FlashBackward):
    """The normalisation has no gradient."""

    def score_gradient(self, p: Tensor, dp: Tensor, saved: Saved) -> Tensor:
        return p * dp


@control("delta-left-out-backward", "dS = P dP without D", operation="attention_backward")
def delta_left_out() -> Kernel:
    """Tiles of 16 keys."""
    return honest_backward(NoDelta())
