"""Every column of V is constant, so that constant is the exact output whatever the scores.

Errors of the scores and of exp cancel; row sum, P and P V are left alone in view.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Case, Plan
from verify.families import _shapes
from verify.family import Family
from verify.integers import Draws

NAME = "constant_v"
SHAPES = (_shapes.SQUARE, Axes(5, 131, d=40, d_v=24), Axes(4, 4096), Axes(3, 129, heads=2))


def _qkv(axes: Axes, factor: int, draws: Draws) -> Arrays:
    v = np.broadcast_to(draws.normal((*axes.v[:2], 1, axes.d_v)), axes.v)
    return {"q": factor * draws.normal(axes.q), "k": draws.normal(axes.k), "v": v}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for axes in SHAPES:
            for factor in (1, 16) if axes.n_q == 64 else (2,):
                yield plan.attention(NAME, f"x{factor}", axes, partial(_qkv, axes, factor))


FAMILY = Family(
    name=NAME,
    hypothesis=(
        "The row sum and P V disagree: different keys, different roundings or a saturated P."
    ),
    effect="Outputs are scaled by a factor that depends on the row.",
    source=(
        "Dao-AILab/flash-attention issue 2716 and pull request 2713 (P saturates, the row sum does "
        "not)."
    ),
    cases=_cases,
)
