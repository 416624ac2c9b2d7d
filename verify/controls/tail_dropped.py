"""The last partial tile is never visited; or tiles past a power of two are lost in a merge.

Shows       n_k = block + 1, with the needle at the last key (3 whole tiles for `power_of_two`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.controls._rows import Rows
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online


def whole(n: int, block: int, power_of_two: bool) -> int:
    """The keys that are visited; of a single partial tile, all."""
    if n <= block:
        return n
    if not power_of_two:
        return n - n % block
    tiles = -(-n // block)
    return min(n, block << (tiles.bit_length() - 1))


@dataclass(frozen=True)
class DropsTail(Online):
    """The loop ends one tile early."""

    power_of_two: bool = False

    def tiles(self, call: Call) -> Iterator[slice]:
        end = whole(call.n_k, self.block, self.power_of_two)
        return (keys for keys in super().tiles(call) if keys.stop <= end)


class DropsTailRows(Rows):
    """Entries of the last partial tile are neither summed nor written (0)."""

    def softmax(self, x: Tensor) -> Tensor:
        end = whole(x.shape[-1], self.block, False)
        kept = super().softmax(x[..., :end])
        return torch.cat([kept, torch.zeros_like(x[..., end:])], dim=-1)


@control("tail-dropped", "the last partial tile is lost")
def tail_dropped(block: int = 16, power_of_two: bool = False) -> Kernel:
    """`power_of_two`: what is lost are the tiles past a power of two."""
    return honest(DropsTail(block=block, power_of_two=power_of_two))


@control("tail-dropped-softmax", "the last partial tile is lost", operation="softmax")
def softmax(block: int = 16) -> Kernel:
    """Tiles of `block` entries."""
    return DropsTailRows(block=block).kernel()
