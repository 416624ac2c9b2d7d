"""P and O are truncated to 16 bits instead of rounded to nearest.

Shows       V > 0 and at least 1e4 outputs: their mean is low by half an ulp.
Report      casts that shift the low half of a binary32 away; each output stays within one ulp.
"""

from __future__ import annotations

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.controls._rows import Rows
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online
from verify.kernels._precision import dtype_of


def truncated(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x rounded toward zero to a 16-bit format."""
    near = x.to(dtype)
    beyond = near.float().abs() > x.abs()
    return (near.view(torch.int16) - beyond.to(torch.int16)).view(dtype)


class Truncates(Online):
    """P and O rounded toward zero."""

    def stored_p(self, p: Tensor, call: Call) -> Tensor:
        return truncated(p, dtype_of(call.format)).float()

    def stored_output(self, o: Tensor, dtype: torch.dtype) -> Tensor:
        return truncated(o, dtype)


class TruncatesRows(Rows):
    """The result rounded toward zero."""

    def stored(self, p: Tensor, dtype: torch.dtype) -> Tensor:
        return truncated(p, dtype)


@control("truncating-stores", "P and O truncated", formats=("fp16", "bf16"))
def truncating_stores(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(Truncates(block=block))


@control(
    "truncating-stores-softmax",
    "the result truncated",
    operation="softmax",
    formats=("fp16", "bf16"),
)
def softmax(block: int = 16) -> Kernel:
    """Tiles of `block` entries."""
    return TruncatesRows(block=block).kernel()
