"""The last partial tile of queries is never written.

Shows       n_q no multiple of the tile, unless the memory happens to hold the answer.
Report      https://github.com/flashinfer-ai/flashinfer/issues/358 (rows left as allocated).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.kernels._attention import Kernel
from verify.kernels._attention_tiled import Online


@dataclass(frozen=True)
class TailUnwritten(Online):
    """Whole tiles of `rows` queries are stored into a buffer as it was allocated."""

    rows: int = 16

    def stored_output(self, o: Tensor, dtype: torch.dtype) -> Tensor:
        out = torch.empty(o.shape, dtype=dtype, device=o.device)
        whole = o.shape[-2] // self.rows * self.rows
        out[..., :whole, :] = o[..., :whole, :].to(dtype)
        return out


@control("tail-unwritten", "the last partial tile of queries is not written")
def tail_unwritten(rows: int = 16, block: int = 16) -> Kernel:
    """`rows`: queries per tile."""
    return honest(TailUnwritten(block=block, rows=rows), deterministic=False)
