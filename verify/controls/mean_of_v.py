"""Ignores q and k: the output is the mean of the visible values.

Shows       anything peaked; uniform scores do not show it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.kernels._attention import Kernel
from verify.kernels._attention_tiled import Online


class MeanOfV(Online):
    """Every score is 0."""

    def product(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.zeros_like(super().product(q, k))


@control("mean-of-v", "q and k are ignored")
def mean_of_v(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(MeanOfV(block=block))
