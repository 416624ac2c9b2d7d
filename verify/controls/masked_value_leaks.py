"""The score is masked, but the V row is still multiplied: 0 NaN = NaN.

Shows       NaN or infinity in one masked V row; every row of the output is NaN.
Report      https://github.com/pytorch/pytorch/issues/101967; flashinfer issue 358.
"""

from __future__ import annotations

from torch import Tensor

from verify.controls._control import control, honest
from verify.kernels._attention import Kernel
from verify.kernels._attention_tiled import Online
from verify.kernels._precision import matrix_product


class Leaks(Online):
    """P V without looking at what is masked."""

    def weighted(self, p: Tensor, v: Tensor, live: Tensor) -> Tensor:
        return matrix_product(p, v, self.pv)


@control("masked-value-leaks", "NaN under a mask shows")
def masked_value_leaks(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(Leaks(block=block))
