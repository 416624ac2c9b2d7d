"""The running maximum starts at a large negative number instead of -inf.

Shows       two keys with exact scores of -6e4 (start -5e4), or of -2e4 (floor -1e4): output 0.
Report      https://github.com/flashinfer-ai/flashinfer/issues/4267, /4450, /4451 and pull 4401.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.controls._rows import Rows
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online, State


@dataclass(frozen=True)
class FiniteStart(Online):
    """m is never below `start`, and l never below `least`."""

    lowest: float = -5e4
    least: float = 0.0

    def start(self, call: Call) -> State:
        m, l, o = super().start(call)  # noqa: E741
        return m.clamp(min=self.lowest), l, o

    def finish(self, state: State, call: Call) -> tuple[Tensor, Tensor]:
        m, l, o = state  # noqa: E741
        return super().finish((m, l.clamp(min=self.least), o), call)


@dataclass(frozen=True)
class FiniteStartRows(Rows):
    """m is never below `start`."""

    lowest: float = -5e4

    def first_maximum(self, y: Tensor) -> Tensor:
        return torch.full_like(super().first_maximum(y), self.lowest)


@control("finite-minus-infinity", "the maximum starts at -5e4")
def finite_minus_infinity(start: float = -5e4, least: float = 0.0, block: int = 16) -> Kernel:
    """`start` of the maximum; `least`: l is floored there (the variant has -1e4 and 1e-6)."""
    return honest(FiniteStart(block=block, lowest=float(start), least=float(least)))


@control("finite-minus-infinity-softmax", "the maximum starts at -5e4", operation="softmax")
def softmax(start: float = -5e4, block: int = 16) -> Kernel:
    """`start` of the maximum."""
    return FiniteStartRows(block=block, lowest=float(start)).kernel()
