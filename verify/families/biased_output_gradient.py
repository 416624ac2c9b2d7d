"""dO = 1 everywhere, and an output that is biased because every P rounds the same way.

All keys but one have exp(s - m) = 0.5 (1 + 0.97 u): P rounds down in every place, the stored output
is low by up to u, and D = sum dO O carries that bias into every dS of the row.
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
from verify.operation import Operation

NAME = "biased_output_gradient"
FINE = -24  # a unit must be small beside u / 2


def _inputs(fmt: Format, axes: Axes, draws: Draws) -> Arrays:
    units = np.full((1, axes.n_k), below(LN_HALF_UP[fmt.name], FINE), np.int64)
    units[0, 0] = 0
    share = np.arange(axes.d_v) * 48 // axes.d_v + 50  # per cent of the keys with the larger value
    larger = np.arange(axes.n_k)[:, None] * 100 < (axes.n_k - 1) * share
    v = np.where(larger, 1 + 2 * fmt.u, 1.0)
    v[0] = 1.0
    do = np.ones((axes.batch, axes.heads, axes.n_q, axes.d_v))
    return {**exact_qk(fmt, axes, units, FINE), "v": np.broadcast_to(v, axes.v), "do": do}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention_backward" or plan.format.p >= 20:
        return
    for axes in (Axes(16, 64, d=16), Axes(3, 131, d=16)):
        yield plan.attention(
            NAME, "", axes, partial(_inputs, plan.format, axes), operation=Operation(plan.operation)
        )


FAMILY = Family(
    name=NAME,
    hypothesis="The output that enters D is biased by more than the declared roundings allow.",
    effect="Gradients of one sign error add up over steps: training in low precision diverges.",
    source="Qiu, Yao: Why low-precision transformer training fails, arXiv 2510.04212, 2025.",
    cases=_cases,
    seeds=1,
    direction="backward",
)
