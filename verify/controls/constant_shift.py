"""Every score is shifted by the same constant instead of by its row maximum.

Shows       s = 2000 overflows, s = -200 vanishes.
Report      "unified maximum" kernels, which bet on the scores of one model.
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
class ConstantShift(Online):
    """m is a constant."""

    constant: float = 10.0

    def start(self, call: Call) -> State:
        m, l, o = super().start(call)  # noqa: E741
        return torch.full_like(m, self.constant), l * torch.exp(m - self.constant), o

    def new_maximum(self, m: Tensor, s: Tensor) -> Tensor:
        return m


@dataclass(frozen=True)
class ConstantShiftRows(Rows):
    """m is a constant."""

    constant: float = 10.0

    def first_maximum(self, y: Tensor) -> Tensor:
        return torch.full_like(super().first_maximum(y), self.constant)

    def new_maximum(self, m: Tensor, tile: Tensor) -> Tensor:
        return m


@control("constant-shift", "exp(s - 10) in every row")
def constant_shift(constant: float = 10.0, block: int = 16) -> Kernel:
    """The `constant` that is subtracted."""
    return honest(ConstantShift(block=block, constant=float(constant)))


@control("constant-shift-softmax", "exp(x - 10) in every row", operation="softmax")
def softmax(constant: float = 10.0, block: int = 16) -> Kernel:
    """The `constant` that is subtracted."""
    return ConstantShiftRows(block=block, constant=float(constant)).kernel()
