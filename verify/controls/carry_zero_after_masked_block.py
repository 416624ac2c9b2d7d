"""After a fully masked tile the running maximum is 0 instead of -inf.

Shows       n_k = 2 blocks, the first one visited masked, every live score -200: P underflows.
Report      the class of https://github.com/flashinfer-ai/flashinfer/issues/4267 (sentinels that
            outlive their tile); faults seen with left-padded batches.
"""

from __future__ import annotations

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.kernels._attention import INFINITY, Kernel
from verify.kernels._attention_tiled import Online


class CarriesZero(Online):
    """Stores m = 0 after a tile without visible keys."""

    def new_maximum(self, m: Tensor, s: Tensor) -> Tensor:
        new = super().new_maximum(m, s)
        return torch.where(new == -INFINITY, 0.0, new)


@control("carry-zero-after-masked-block", "m = 0 after a fully masked tile")
def carry_zero_after_masked_block(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(CarriesZero(block=block))
