"""Unusual but right: how the scores come about."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from torch import Tensor

from verify.controls._control import right
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online
from verify.kernels._precision import rounded


class PowerOfTwoQuery(Online):
    """q times the power of two in the scale (exact), the rest of the scale on the scores."""

    def attend(self, call: Call) -> tuple[Tensor, Tensor]:
        rest, exponent = math.frexp(call.scale)
        q = call.q * 2.0 ** (exponent - 1)  # so that q k^T is never larger than the scores
        return super().attend(replace(call, q=q, scale=2 * rest))


@right("power-of-two-query", "q pre-scaled by a power of two")
def power_of_two_query(block: int = 16) -> Kernel:
    """Bits do not change, short of overflow and underflow."""
    return PowerOfTwoQuery(block=block).kernel(deterministic=True, one_key_exact=True)


class RoundedQuery(Online):
    """q times the scale, rounded to the input format before Q K^T."""

    def attend(self, call: Call) -> tuple[Tensor, Tensor]:
        q = rounded(call.q * call.scale, call.format)
        return super().attend(replace(call, q=q, scale=1.0))

    def model(self, name: str) -> dict[str, Any]:
        return super().model(name) | {"scale_position": "query"}


@right("rounded-query", "scaled q rounded to the input format, as declared")
def rounded_query(block: int = 16) -> Kernel:
    """On the line: an extra error u |s| in each score, which the model must say."""
    return RoundedQuery(block=block).kernel(deterministic=True, one_key_exact=True)


class RowShift(Online):
    """Every score of a row is larger by 1."""

    def live_scores(self, call: Call, keys: slice) -> Tensor:
        return super().live_scores(call, keys) + 1.0

    def attend(self, call: Call) -> tuple[Tensor, Tensor]:
        sinks = None if call.sinks is None else call.sinks + 1.0
        return super().attend(replace(call, sinks=sinks))

    def model(self, name: str) -> dict[str, Any]:
        return super().model(name) | {"stored_scores": "fp32"}


@right("row-shift", "a constant added to every score of a row")
def row_shift(block: int = 16) -> Kernel:
    """Softmax does not see it; the log-sum-exp would, and is not claimed."""
    return RowShift(block=block).kernel(
        deterministic=True, one_key_exact=True, without=("return_lse",)
    )


class BaseTwo(Online):
    """The log-sum-exp over ln 2."""

    def log_sum_exp(self, m: Tensor, l: Tensor) -> Tensor:  # noqa: E741
        return super().log_sum_exp(m, l) / math.log(2)


@right("base-two", "log-sum-exp in base 2, as declared")
def base_two(block: int = 16) -> Kernel:
    """Two roundings more: of ln 2, and of the quotient."""
    return BaseTwo(block=block).kernel(deterministic=True, one_key_exact=True, lse_base="2")
