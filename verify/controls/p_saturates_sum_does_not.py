"""With a lazy rescale P reaches 2^8; it is clipped at a format's maximum, the row sum is not.

Shows       a staircase of +2.6 per tile: the maximum lags, P = exp(5.2) > 28; V = 1 gives 0.2.
Report      https://github.com/Dao-AILab/flash-attention/issues/2577, /2716 (E4M3 clips at 448 what
            an offset of 2^4 and a lag of 2^8 let grow to 4096); vllm flash-attention pull 166.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.kernels._attention import INFINITY, Call, Kernel
from verify.kernels._attention_tiled import Online


@dataclass(frozen=True)
class Saturates(Online):
    """P is clipped at `limit` on its way into P V."""

    limit: float = 28.0
    lag: float = 8 * math.log(2)

    def new_maximum(self, m: Tensor, s: Tensor) -> Tensor:
        new = super().new_maximum(m, s)
        return torch.where((m > -INFINITY) & (new - m <= self.lag), m, new)

    def stored_p(self, p: Tensor, call: Call) -> Tensor:
        return super().stored_p(p, call).clamp(max=self.limit)


@control("p-saturates-sum-does-not", "P clipped at 448 / 2^4, the row sum not")
def p_saturates_sum_does_not(limit: float = 28.0, block: int = 16) -> Kernel:
    """`limit` of P in units of its frame."""
    return honest(Saturates(block=block, limit=float(limit)))
