"""All keys but one have exp(s - m) = 0.5 (1 + 0.97 u), which rounds down to 0.5.

The row sum of unrounded P keeps what P lost, so the output is low by almost u; V of 1 and 1 + 2u
puts the exact results next to rounding boundaries.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Case, Plan
from verify.families._exact_scores import exact_qk
from verify.families._thresholds import LN_HALF_UP, below
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws

NAME = "p_half_bias"
FINE = -24  # a unit must be small beside u / 2


def _qkv(fmt: Format, axes: Axes, draws: Draws) -> Arrays:
    units = np.full((1, axes.n_k), below(LN_HALF_UP[fmt.name], FINE), np.int64)
    units[0, 0] = 0
    share = np.arange(axes.d_v) * 48 // axes.d_v + 50  # per cent of the keys with the larger value
    larger = np.arange(axes.n_k)[:, None] * 100 < (axes.n_k - 1) * share
    v = np.where(larger, 1 + 2 * fmt.u, 1.0)
    v[0] = 1.0
    return {**exact_qk(fmt, axes, units, FINE), "v": np.broadcast_to(v, axes.v)}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention" and plan.format.p < 20:
        for axes in (Axes(16, 64), Axes(1, 512), Axes(3, 131)):
            yield plan.attention(NAME, "", axes, partial(_qkv, plan.format, axes))


FAMILY = Family(
    name=NAME,
    hypothesis="P is rounded more coarsely than to the input format, or truncated.",
    effect=("Outputs are biased towards zero by up to one unit roundoff, in every layer alike."),
    source=(
        "Qiu, Yao: Why low-precision transformer training fails, arXiv 2510.04212, 2025 "
        "(roundings of P with one sign)."
    ),
    cases=_cases,
    seeds=1,
)
