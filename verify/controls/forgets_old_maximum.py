"""The new maximum is that of the current tile alone, so that the old part can overflow.

Shows       one tile at +100, the next at -100: the factor exp(200) overflows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.controls._rows import Rows
from verify.kernels._attention import INFINITY, Kernel
from verify.kernels._attention_tiled import Online


class Forgets(Online):
    """m = maximum of the tile, where it has visible keys."""

    def new_maximum(self, m: Tensor, s: Tensor) -> Tensor:
        here = s.amax(dim=-1, keepdim=True)
        return torch.where(here == -INFINITY, m, here)


class ForgetsRows(Rows):
    """m = maximum of the tile."""

    def new_maximum(self, m: Tensor, tile: Tensor) -> Tensor:
        return tile.amax(dim=-1, keepdim=True)


@control("forgets-old-maximum", "the maximum of the current tile only")
def forgets_old_maximum(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(Forgets(block=block))


@control("forgets-old-maximum-softmax", "the maximum of the current tile only", operation="softmax")
def softmax(block: int = 16) -> Kernel:
    """Tiles of `block` entries."""
    return ForgetsRows(block=block).kernel()
