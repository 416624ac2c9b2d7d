"""Three, five, seven or more equal keys and V = 1: p is 1/n, which no binary format holds.

A kernel that normalises P before rounding it sums n equal roundings of 1/n and misses 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.family import Family
from verify.integers import Draws

NAME = "p_unit_fraction"
COUNTS = (3, 5, 7, 11, 48, 96)


def _qkv(axes: Axes, draws: Draws) -> Arrays:
    return {"q": draws.normal(axes.q), "k": np.zeros(axes.k), "v": np.ones(axes.v)}


def _x(n: int, draws: Draws) -> Array:
    return np.full((1, n), -3.0)


def _cases(plan: Plan) -> Iterator[Case]:
    for n in COUNTS:
        if plan.operation == "attention":
            axes = Axes(n, n, d=16) if n > 20 else Axes(2, n, d=16)
            yield plan.attention(NAME, "", axes, partial(_qkv, axes), extensive=n in (11, 96))
        else:
            yield plan.rows(NAME, "", (1, n), partial(_x, n), extensive=n in (11, 96))


FAMILY = Family(
    name=NAME,
    hypothesis=(
        "Normalised probabilities are rounded more coarsely than declared and no longer sum to 1."
    ),
    effect=("A constant V does not come back: every output is scaled by the same wrong factor."),
    source="ROCm/FlyDSL pull request 1020 (V = 1 gives 0.637).",
    cases=_cases,
    seeds=1,
)
