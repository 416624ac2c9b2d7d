"""The queries of a last partial tile are not computed: their output is 0.

Shows       a number of queries that is no multiple of the tile, and larger than it.
Report      https://github.com/flashinfer-ai/flashinfer/issues/358 (tiles at the edge).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from verify.controls._control import control, honest
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online


@dataclass(frozen=True)
class LastQueriesUnwritten(Online):
    """Whole tiles of `tile` queries; fewer than one tile are all computed."""

    tile_of_queries: int = 128

    def attend(self, call: Call) -> tuple[Tensor, Tensor]:
        o, lse = super().attend(call)
        n_q = o.shape[-2]
        whole = n_q - n_q % self.tile_of_queries
        if whole:
            o[..., whole:, :], lse[..., whole:, :] = 0.0, 0.0
        return o, lse


@control("last-queries-unwritten", "the last partial tile of queries is not computed")
def last_queries_unwritten(tile: int = 128, block: int = 16) -> Kernel:
    """`tile`: queries of a tile; `block`: keys of one."""
    return honest(LastQueriesUnwritten(block=block, tile_of_queries=tile))
