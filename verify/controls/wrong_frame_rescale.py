"""The running sum and output are not rescaled when the maximum rises.

Shows       a staircase: each tile's maximum 4 above the one before.
"""

from __future__ import annotations

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.controls._rows import Rows
from verify.kernels._attention import Kernel
from verify.kernels._attention_tiled import Online


class NeverRescales(Online):
    """The old part stays in the old frame."""

    def correction(self, m: Tensor, new: Tensor) -> Tensor:
        return torch.ones_like(new)


class NeverRescalesRows(Rows):
    """The old sum stays in the old frame."""

    def correction(self, m: Tensor, new: Tensor) -> Tensor:
        return torch.ones_like(new)


@control("wrong-frame-rescale", "no rescale when the maximum rises")
def wrong_frame_rescale(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(NeverRescales(block=block))


@control("wrong-frame-rescale-softmax", "no rescale when the maximum rises", operation="softmax")
def softmax(block: int = 16) -> Kernel:
    """Tiles of `block` entries."""
    return NeverRescalesRows(block=block).kernel()
