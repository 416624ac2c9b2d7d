"""The scaled scores are rounded to 16 bits before the exponential.

Shows       s = 100 +- 1: half an ulp of bfloat16 there is 0.25, a factor exp(0.25) in P.
Report      https://github.com/ml-explore/mlx/pull/3119 (scaled operands in the input format).
"""

from __future__ import annotations

from torch import Tensor

from verify.controls._control import control, honest, low_format
from verify.controls._rows import Rows
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online
from verify.kernels._precision import NAMES, rounded


class HalfScores(Online):
    """Scores stored in the 16-bit format next to the input's."""

    def masked(self, s: Tensor, call: Call, keys: slice) -> Tensor:
        return super().masked(rounded(s, low_format(call.format)), call, keys)


class HalfEntries(Rows):
    """Entries times log2 e, rounded to 16 bits, as an exp2 kernel would store them."""

    def entries(self, x: Tensor) -> Tensor:
        low = low_format(NAMES[x.dtype])
        return rounded(x.float() * 1.442695, low) * 0.6931472


@control("half-scores", "scores rounded to 16 bits before exp")
def half_scores(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(HalfScores(block=block))


@control("half-scores-softmax", "x log2(e) rounded to 16 bits before exp2", operation="softmax")
def softmax(block: int = 16) -> Kernel:
    """Tiles of `block` entries."""
    return HalfEntries(block=block).kernel()
