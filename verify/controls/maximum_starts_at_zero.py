"""The running maximum starts at 0: rows that are all very negative underflow.

Shows       one key with s = -200.
Report      the commonest slip in hand-written online softmax (accumulators zero-initialised).
"""

from __future__ import annotations

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.controls._rows import Rows
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online, State


class StartsAtZero(Online):
    """m = max(0, row maximum)."""

    def start(self, call: Call) -> State:
        m, l, o = super().start(call)  # noqa: E741
        return m.clamp(min=0.0), l * torch.exp(m.clamp(max=0.0)), o


class StartsAtZeroRows(Rows):
    """m = max(0, row maximum)."""

    def first_maximum(self, y: Tensor) -> Tensor:
        return torch.zeros_like(super().first_maximum(y))


@control("maximum-starts-at-zero", "m = max(0, row maximum)")
def maximum_starts_at_zero(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(StartsAtZero(block=block))


@control("maximum-starts-at-zero-softmax", "m = max(0, row maximum)", operation="softmax")
def softmax(block: int = 16) -> Kernel:
    """Tiles of `block` entries."""
    return StartsAtZeroRows(block=block).kernel()
