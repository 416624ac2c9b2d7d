"""Unusual but right: what becomes of P before it meets V."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from verify.controls._control import right
from verify.kernels._attention import Call, Kernel, Shifted, TwoPass
from verify.kernels._attention_tiled import Online, State
from verify.kernels._precision import rounded

SMALLEST_NORMAL = {"fp16": 2.0**-14, "bf16": 2.0**-126, "fp32": 2.0**-126}


@right("two-pass", "P normalised, then rounded")
def two_pass() -> Kernel:
    """Maximum and sum first; then exp(s - m) / l, rounded, times V."""
    return TwoPass().kernel(deterministic=True, one_key_exact=True)


@right("binary32-p", "P kept in binary32")
def binary32_p(block: int = 16) -> Kernel:
    """Tiles of `block` keys; only the output is rounded to the input format."""
    return Online(block=block, p="fp32").kernel(deterministic=True, one_key_exact=True)


@right("binary32-output", "everything in binary32, the output rounded once at the end")
def binary32_output() -> Kernel:
    """All scores at once; P and O in binary32."""
    return Shifted(p="fp32").kernel(deterministic=True, one_key_exact=True)


class SumOfRounded(Online):
    """The row sum adds what P V sees."""

    def tile(self, state: State, call: Call, keys: slice) -> State:
        m, l, o = state  # noqa: E741
        s = self.live_scores(call, keys)
        new = self.new_maximum(m, s)
        p = self.stored_p(self.shifted(s, new), call)
        factor = self.correction(m, new)
        l = self.added(l * factor, p, call)  # noqa: E741
        return new, l, self.accumulated(o, factor, p, call, keys, s)

    def model(self, name: str) -> dict[str, Any]:
        return super().model(name) | {"row_sum_of": "rounded"}


@right("sum-of-rounded-p", "row sum taken from rounded P")
def sum_of_rounded_p(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return SumOfRounded(block=block).kernel(deterministic=True, one_key_exact=True)


class FlushesP(Online):
    """P below the smallest normal number of its format becomes 0, and counts in the row sum."""

    def stored_p(self, p: Tensor, call: Call) -> Tensor:
        stored = rounded(p, self.p or call.format)
        return torch.where(stored < SMALLEST_NORMAL[self.p or call.format], 0.0, stored)

    def model(self, name: str) -> dict[str, Any]:
        return super().model(name) | {"flush_p": True}


@right("flushes-p", "subnormal P flushed to zero, as declared")
def flushes_p(block: int = 16) -> Kernel:
    """On the line: adds 2^-14 sum |v| in fp16; without `flush_p` in the model, refuted."""
    return FlushesP(block=block).kernel(deterministic=True, one_key_exact=True)
