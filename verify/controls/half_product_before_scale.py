"""The raw product q k is stored in binary16 and scaled afterwards.

Shows       d = 64, q = k = 64: q k = 262144 is beyond 65504.
Report      https://github.com/pytorch/pytorch/issues/109517 (overflow before the scale).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from verify.controls._control import control, honest
from verify.kernels._attention import Kernel
from verify.kernels._attention_tiled import Online
from verify.kernels._precision import rounded


@dataclass(frozen=True)
class HalfProduct(Online):
    """q k rounded to `storage` before the scale."""

    storage: str = "fp16"

    def product(self, q: Tensor, k: Tensor) -> Tensor:
        return rounded(super().product(q, k), self.storage)


@control("half-product-before-scale", "q k stored in binary16, scaled afterwards")
def half_product_before_scale(storage: str = "fp16", block: int = 16) -> Kernel:
    """`storage`: the format of the raw product."""
    return honest(HalfProduct(block=block, storage=storage))
