"""Unusual but right: other ways to the exponential."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from verify.controls._control import right
from verify.controls.approximate_exp import coarse_exp
from verify.formats import FORMATS
from verify.kernels._attention import INFINITY, Call, Kernel
from verify.kernels._attention_tiled import Online, State

LOG2_E = math.log2(math.e)


class FoldedScale(Online):
    """Scores in units of ln 2: the scale is rounded to binary32 once, with log2(e) in it."""

    def scaled(self, call: Call, keys: slice) -> Tensor:
        return self.product(call.q, call.k[..., keys, :]) * (call.scale * LOG2_E)

    def exponential(self, x: Tensor) -> Tensor:
        return torch.exp2(x)


@right("exp2-folded-scale", "exp2 with log2(e) folded into the scale")
def exp2_folded_scale(block: int = 16) -> Kernel:
    """Same count of roundings as exp; options that act on natural scores are not claimed.

    s log2(e) overflows from |s| = 2.36e38 on.
    """
    return FoldedScale(block=block).kernel(
        deterministic=True,
        one_key_exact=True,
        score_limit=2e38,
        without=("softcap", "bias", "sinks", "return_lse"),
    )


class FmaExponent(Online):
    """exp2(fma(y, c, -round(m c))) on raw products y, with c = scale log2(e) (FlashAttention)."""

    def scaled(self, call: Call, keys: slice) -> Tensor:
        return self.product(call.q, call.k[..., keys, :])

    def attend(self, call: Call) -> tuple[Tensor, Tensor]:
        positive = replace(call, q=-call.q, scale=-call.scale) if call.scale < 0 else call
        return super().attend(positive)

    def tile(self, state: State, call: Call, keys: slice) -> State:
        m, l, o = state  # noqa: E741
        y = self.live_scores(call, keys)
        new = self.new_maximum(m, y)
        c = torch.tensor(call.scale * LOG2_E, dtype=torch.float32, device=y.device)
        base = torch.where(new == -INFINITY, 0.0, new)
        e = torch.exp2((y.double() * c.double() - (base * c).double()).float())
        factor = torch.exp2((m - base) * c)
        l = self.added(l * factor, e, call)  # noqa: E741
        return new, l, self.accumulated(o, factor, self.stored_p(e, call), call, keys, y)

    def model(self, name: str) -> dict[str, Any]:
        return super().model(name) | {"exponential": "fma"}


@right("fma-exponent", "exp2(fma(y, c, -m c)) inside its declared domain of scores")
def fma_exponent(score_limit: float = 1e4, block: int = 16) -> Kernel:
    """Right while |s| <= `score_limit`."""
    return FmaExponent(block=block).kernel(
        deterministic=True,
        score_limit=float(score_limit),
        without=("softcap", "bias", "sinks", "return_lse"),
    )


@dataclass(frozen=True)
class OffsetMaximum(Online):
    """Shifts by m + `offset`, so that P stays below exp(-offset)."""

    offset: float = math.log(8)

    def shifted(self, s: Tensor, m: Tensor) -> Tensor:
        return super().shifted(s, m + self.offset)

    def correction(self, m: Tensor, new: Tensor) -> Tensor:
        return super().shifted(m, new)

    def start(self, call: Call) -> State:
        m, l, o = super().start(call)  # noqa: E741
        return m, l * math.exp(-self.offset), o

    def model(self, name: str) -> dict[str, Any]:
        return super().model(name) | {"max_offset": self.offset}


@right("offset-maximum", "shift by the maximum + ln 8")
def offset_maximum(block: int = 16) -> Kernel:
    """The log-sum-exp, which would need the offset back, is not claimed."""
    return OffsetMaximum(block=block).kernel(deterministic=True, without=("return_lse",))


@dataclass(frozen=True)
class OneUlpExp(Online):
    """exp cut to the precision of the input format: below one ulp of it."""

    bits: int = 24

    def attend(self, call: Call) -> tuple[Tensor, Tensor]:
        return Online.attend(replace(self, bits=FORMATS[call.format].p), call)

    def exponential(self, x: Tensor) -> Tensor:
        return torch.exp(x) if self.bits > 23 else coarse_exp(x, self.bits)

    def model(self, name: str) -> dict[str, Any]:
        if name == "fp32":
            return super().model(name)
        return super().model(name) | {"exp_relative": 2 * FORMATS[name].u + 2.0**-22}


@right("one-ulp-exp", "exp good to one ulp of the input format, as declared")
def one_ulp_exp(block: int = 16) -> Kernel:
    """The error is in the model: relative 2 u of the input format."""
    return OneUlpExp(block=block).kernel(deterministic=True, one_key_exact=True)
