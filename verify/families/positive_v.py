"""Independent positive values and more than 1e4 outputs.

Correct rounding errs to both sides alike; truncation has one sign, which no single output shows and
the mean of many does.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Case, Plan
from verify.family import Family
from verify.integers import Draws

NAME = "positive_v"
MANY = Axes(64, 64, heads=4)


def _qkv(axes: Axes, draws: Draws) -> Arrays:
    v = np.abs(draws.normal(axes.v)) + 0.25
    return {"q": draws.normal(axes.q), "k": draws.normal(axes.k), "v": v}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        yield plan.attention(NAME, "", MANY, partial(_qkv, MANY), smoke=True)


FAMILY = Family(
    name=NAME,
    hypothesis="P, the accumulator or the output is truncated instead of rounded to nearest.",
    effect="A small loss of one sign in every layer adds up over a model.",
    source=(
        "Fasi, Higham, Mikaitis, Pranesh, PeerJ Computer Science 7:e330, 2021 "
        "(truncation in tensor cores); Connolly, Higham, Mary: Stochastic rounding and "
        "its probabilistic backward error analysis, SIAM J. Sci. Comput. 43(1), 2021."
    ),
    cases=_cases,
)
