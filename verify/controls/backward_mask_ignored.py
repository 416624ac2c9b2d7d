"""What causal, window and mask remove in the forward pass takes part in the backward pass.

Shows       causal with scores of order 1: P of the removed keys is as large as that of others.
Report      backward kernels that recompute scores without the forward pass's mask.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from verify.controls._control import control, honest_backward
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_backward import FlashBackward


class IgnoresMask(FlashBackward):
    """Every key is visible where P is formed again."""

    def scores(self, call: Call, keys: slice) -> Tensor:
        return super().scores(replace(call, visible=torch.ones_like(call.visible)), keys)


@control(
    "causal-ignored-backward",
    "removed keys take part in the backward pass",
    operation="attention_backward",
)
def causal_ignored() -> Kernel:
    """Tiles of 16 keys."""
    return honest_backward(IgnoresMask())
