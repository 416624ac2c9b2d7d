"""Returns zeros, or a constant, whatever the input.

Shows       anything.
Report      zeros pass a softmax check with an absolute tolerance over 4e5 columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.controls._rows import Rows
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online


@dataclass(frozen=True)
class Constant(Online):
    """The same number everywhere."""

    value: float = 0.0

    def attend(self, call: Call) -> tuple[Tensor, Tensor]:
        o, lse = super().attend(call)
        return torch.full_like(o, self.value), lse


class ZeroRows(Rows):
    """Zeros."""

    def softmax(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


@control("zeros", "zeros, or a constant, whatever the input")
def zeros(value: float = 0.0, block: int = 16) -> Kernel:
    """The `value` that is returned."""
    return honest(Constant(block=block, value=float(value)))


@control("zeros-softmax", "zeros, whatever the input", operation="softmax")
def softmax() -> Kernel:
    """Zeros."""
    return ZeroRows().kernel()
