"""The output is accumulated in 16 bits, one key after another, before the division.

Shows       equal scores: fp16 overflows with V = 1000 at n_k = 66, bf16 sticks for V > 0.
Report      the class of FlashAttention-3's FP8 accumulator (vLLM, 2026-04: needle in a haystack
            from 91 % down to 13 % at 128k keys).
"""

from __future__ import annotations

import torch
from torch import Tensor

from verify.controls._control import control, honest, low_format
from verify.kernels._attention import INFINITY, Call, Kernel
from verify.kernels._attention_tiled import Online
from verify.kernels._precision import dtype_of


class HalfAccumulator(Online):
    """O in 16 bits."""

    def accumulated(
        self, o: Tensor, factor: Tensor, p: Tensor, call: Call, keys: slice, s: Tensor
    ) -> Tensor:
        low = (o * factor).to(dtype_of(low_format(call.format)))
        v = call.v[..., keys, :].to(low.dtype)
        for i in range(p.shape[-1]):
            term = p[..., i : i + 1].to(low.dtype) * v[..., i : i + 1, :]
            low = low + torch.where(s[..., i : i + 1] == -INFINITY, 0.0, term)
        return low.float()


@control("half-accumulator", "output accumulated in 16 bits")
def half_accumulator(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(HalfAccumulator(block=block))
