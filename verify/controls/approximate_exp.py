"""An exponential that is good to 3 bits (or to 8).

Shows       scores in [-10, 0].  With 8 bits it is within the bound of bf16.
Report      polynomial exponentials of low degree; CPU kernels with a 16-bit fast exponential.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.controls._rows import Rows
from verify.errors import UsageError
from verify.kernels._attention import Kernel
from verify.kernels._attention_tiled import Online


def coarse_exp(x: Tensor, bits: int) -> Tensor:
    """exp(x) cut to `bits` significand bits; NaN, infinities and exp(0) = 1 as they should be."""
    if not 1 <= bits < 24:
        raise UsageError(f"an exponential has 1 to 23 bits here, not {bits}")
    lost = 24 - bits
    return (torch.exp(x).view(torch.int32) >> lost << lost).view(torch.float32)


@dataclass(frozen=True)
class ApproximateExp(Online):
    """exp with few bits."""

    bits: int = 3

    def exponential(self, x: Tensor) -> Tensor:
        return coarse_exp(x, self.bits)


@dataclass(frozen=True)
class ApproximateExpRows(Rows):
    """exp with few bits."""

    bits: int = 3

    def exponential(self, x: Tensor) -> Tensor:
        return coarse_exp(x, self.bits)


@control("approximate-exp", "exp good to 3 bits")
def approximate_exp(bits: int = 3, block: int = 16) -> Kernel:
    """`bits` of the exponential."""
    return honest(ApproximateExp(block=block, bits=bits))


@control("approximate-exp-softmax", "exp good to 3 bits", operation="softmax")
def softmax(bits: int = 3, block: int = 16) -> Kernel:
    """`bits` of the exponential."""
    return ApproximateExpRows(block=block, bits=bits).kernel()
