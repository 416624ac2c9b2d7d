"""exp(s) without subtracting anything: overflows above 88.72.

Shows       s = 100; softmax of [1000, 1001, 999] (there: `textbook-softmax-naive`).
"""

from __future__ import annotations

from torch import Tensor

from verify.controls._control import control, honest
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online, State


class Unshifted(Online):
    """m stays 0."""

    def start(self, call: Call) -> State:
        m, l, o = super().start(call)  # noqa: E741
        return m.new_zeros(m.shape), l * m.exp(), o

    def new_maximum(self, m: Tensor, s: Tensor) -> Tensor:
        return m


@control("no-shift", "exp(s) without a shift")
def no_shift(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(Unshifted(block=block))
