"""dK and dV of a kv head are those of its first query head alone.

Shows       grouped heads with gradients of order 1 in every head.
Report      grouped-query kernels whose gradient buffers were sized for kv heads and written by one
            head each.
"""

from __future__ import annotations

from torch import Tensor

from verify.controls._control import control, honest_backward
from verify.kernels._attention import Kernel
from verify.kernels._attention_backward import FlashBackward


class FirstHeadOnly(FlashBackward):
    """The group is not summed."""

    def grouped(self, x: Tensor, kv_heads: int) -> Tensor:
        return x[:, :: x.shape[1] // kv_heads].contiguous()


@control(
    "group-not-reduced-backward",
    "dK and dV of one head of the group",
    operation="attention_backward",
)
def group_not_reduced() -> Kernel:
    """Tiles of 16 keys."""
    return honest_backward(FirstHeadOnly())
