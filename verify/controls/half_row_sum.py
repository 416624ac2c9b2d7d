"""The row sum is accumulated in 16 bits, one key after another.

Shows       equal scores: fp16 sticks at 2048 (n_k = 4096), bf16 at 256 (n_k = 512).
"""

from __future__ import annotations

from torch import Tensor

from verify.controls._control import control, honest, low_format
from verify.controls._rows import Rows
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online
from verify.kernels._precision import NAMES, dtype_of


def chained(total: Tensor, e: Tensor, name: str) -> Tensor:
    """total + e_1 + e_2 + ..., each addition rounded to the format."""
    low = total.to(dtype_of(name))
    for i in range(e.shape[-1]):
        low = low + e[..., i : i + 1].to(low.dtype)
    return low.float()


class HalfSum(Online):
    """l in 16 bits."""

    def added(self, l: Tensor, e: Tensor, call: Call) -> Tensor:  # noqa: E741
        return chained(l, e, low_format(call.format))


class HalfSumRows(Rows):
    """l in 16 bits."""

    def added(self, l: Tensor, e: Tensor, x: Tensor) -> Tensor:  # noqa: E741
        return chained(l, e, low_format(NAMES[x.dtype]))


@control("half-row-sum", "row sum accumulated in 16 bits")
def half_row_sum(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(HalfSum(block=block))


@control("half-row-sum-softmax", "row sum accumulated in 16 bits", operation="softmax")
def softmax(block: int = 16) -> Kernel:
    """Tiles of `block` entries."""
    return HalfSumRows(block=block).kernel()
