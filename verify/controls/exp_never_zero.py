"""exp(x) is at least 2^-126, for masked keys too (whose argument is -inf).

Shows       V = 3e38 under a mask: 2^-126 * 3e38 = 3.5.  In fp16 P rounds to 0, and nothing shows.
Report      fast exponentials that clamp their argument at -87.3.
"""

from __future__ import annotations

from torch import Tensor

from verify.controls._control import control, honest
from verify.kernels._attention import Kernel
from verify.kernels._attention_tiled import Online


class NeverZero(Online):
    """The exponential is clamped from below."""

    def exponential(self, x: Tensor) -> Tensor:
        return super().exponential(x).clamp(min=2.0**-126)

    def weighted(self, p: Tensor, v: Tensor, live: Tensor) -> Tensor:
        return super().weighted(p, v, p != 0)


@control("exp-never-zero", "exp is at least 2^-126", formats=("bf16", "fp32"))
def exp_never_zero(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(NeverZero(block=block))
