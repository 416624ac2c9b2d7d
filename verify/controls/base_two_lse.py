"""The log-sum-exp is returned in base 2 where the natural logarithm is declared.

Shows       any input.
"""

from __future__ import annotations

import math

from torch import Tensor

from verify.controls._control import control, honest
from verify.kernels._attention import Kernel
from verify.kernels._attention_tiled import Online


class BaseTwo(Online):
    """log2 of the sum of exponentials."""

    def log_sum_exp(self, m: Tensor, l: Tensor) -> Tensor:  # noqa: E741
        return super().log_sum_exp(m, l) / math.log(2)


@control("base-two-lse", "log-sum-exp in base 2")
def base_two_lse(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(BaseTwo(block=block))
