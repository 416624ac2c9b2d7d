"""Nearly equal probabilities over V of +100 and -100 in turn: the output is a small remainder.

W1 = sum p |v| is 100 while |O| is of order 1, so roundings of P that a relative error of V would
hide are seen in full.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Case, Plan
from verify.families import _shapes
from verify.families._values import signs
from verify.family import Family
from verify.integers import Draws

NAME = "v_cancellation"
SHAPES = (_shapes.SQUARE, Axes(16, 512), Axes(5, 131, d=16, d_v=8), Axes(4, 4096))


def _qkv(axes: Axes, draws: Draws) -> Arrays:
    k = np.broadcast_to(draws.normal((*axes.k[:2], 1, axes.d)), axes.k)
    k = k + 2.0**-4 * draws.normal(axes.k)
    v = signs(axes, 100.0) + draws.normal(axes.v)
    return {"q": draws.normal(axes.q), "k": k, "v": v}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for axes in SHAPES:
            yield plan.attention(NAME, "", axes, partial(_qkv, axes))


FAMILY = Family(
    name=NAME,
    hypothesis="P is rounded more coarsely than declared, or P V loses small terms beside large.",
    effect="Outputs that are differences of large values are mostly noise.",
    source="Higham: Accuracy and Stability of Numerical Algorithms, 2nd ed. 2002, section 1.7 "
    "(cancellation shows earlier errors).",
    cases=_cases,
)
