"""The scores 1000, 1001, 999: every exponential overflows unless the maximum is subtracted.

The differences are -1, 0, -2 exactly, so a shifted kernel sees the easiest of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families._exact_scores import exact_qk
from verify.families._values import with_ones
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws

NAME = "seed_case"
SCORES = (1000, 1001, 999)


def _x(scores: tuple[int, ...], n: int, draws: Draws) -> Array:
    return np.resize(np.array(scores, np.float64), (1, n))


def _qkv(fmt: Format, axes: Axes, sign: int, draws: Draws) -> Arrays:
    units = sign * np.resize(np.array(SCORES, np.int64), (1, axes.n_k))
    return {**exact_qk(fmt, axes, units, unit=0), "v": with_ones(draws, axes)}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for sign, name in ((1, "positive"), (-1, "negative")):
            for axes in (Axes(16, 16), Axes(1, 3)):
                yield plan.attention(
                    NAME,
                    name,
                    axes,
                    partial(_qkv, plan.format, axes, sign),
                    smoke=axes.n_k == 16,
                    notes={"level": 1000.0 * sign},
                )
        return
    for name, scores in (
        ("positive", SCORES),
        ("negative", tuple(-s for s in SCORES)),
        ("spaced", (1000, 1004, 996)),  # bf16 holds multiples of 4 here
    ):
        for n in (3, 16):
            yield plan.rows(
                NAME,
                name,
                (1, n),
                partial(_x, scores, n),
                smoke=True,
                notes={"level": float(scores[1])},
            )


FAMILY = Family(
    name=NAME,
    hypothesis="The kernel exponentiates scores without subtracting their maximum.",
    effect="Ordinary rows give infinity or NaN as soon as scores reach a few hundred.",
    source="Blanchard, Higham, Higham: Accurately computing the log-sum-exp and softmax functions, "
    "IMA J. Numer. Anal. 41(4), 2021, section 1 (overflow of the unshifted formula).",
    cases=_cases,
    seeds=1,
)
