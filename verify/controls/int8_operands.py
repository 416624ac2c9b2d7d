"""q and k are quantised to 8-bit integers, one scale a row, and nothing says so.

Shows       scores of order 10: each is off by about 1/254 of sum |q| max |k|.
Report      https://github.com/thu-ml/SageAttention/issues/221, /93, /162 (black images).
"""

from __future__ import annotations

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.kernels._attention import Kernel
from verify.kernels._attention_tiled import Online


def quantised(x: Tensor) -> Tensor:
    """x to the nearest multiple of 1/127 of the largest magnitude of its row."""
    step = x.abs().amax(dim=-1, keepdim=True) / 127
    return torch.where(step > 0, torch.round(x / step) * step, x)


class Int8Operands(Online):
    """Q K^T on quantised rows."""

    def product(self, q: Tensor, k: Tensor) -> Tensor:
        return super().product(quantised(q), quantised(k))


@control("int8-operands", "q and k quantised to 8 bits")
def int8_operands(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(Int8Operands(block=block))
