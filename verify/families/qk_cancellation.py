"""The second half of each product cancels the first: sum |q k| is far above |sum q k|.

Score errors are proportional to the former and show against the latter.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Arrays, Axes, Case, Plan
from verify.families import _shapes
from verify.families._values import with_ones
from verify.family import Family
from verify.integers import Draws

NAME = "qk_cancellation"
SHAPES = (_shapes.SQUARE, Axes(7, 131, d=80), Axes(16, 512, d=128))


def _qkv(axes: Axes, draws: Draws) -> Arrays:
    half = axes.d // 2
    q, k = 8 * draws.normal(axes.q), draws.normal(axes.k)
    q[..., half:] = q[..., :half]
    k[..., half:] = -k[..., :half]
    k *= 8
    k[..., 0] += 0.125 * draws.normal(axes.k[:-1])
    return {"q": q, "k": k, "v": with_ones(draws, axes)}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for axes in SHAPES:
            yield plan.attention(NAME, "", axes, partial(_qkv, axes))


FAMILY = Family(
    name=NAME,
    hypothesis="Products are rounded, or accumulated in fewer bits than declared.",
    effect="Nearly orthogonal queries and keys, as in high dimension, get random scores.",
    source="Higham: Accuracy and Stability of Numerical Algorithms, 2nd ed. 2002, section 3.1 "
    "(dot products and their condition number).",
    cases=_cases,
)
