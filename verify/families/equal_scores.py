"""All keys of a row are equal, so every score, every P and every rounding of it is the same.

P is exactly 1 and the row sum exactly n: whatever is wrong comes from sums and from the division.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families import _shapes
from verify.families._values import with_ones
from verify.family import Family
from verify.integers import Draws

NAME = "equal_scores"
AXES = (_shapes.SQUARE, Axes(4, 300, d=16), Axes(16, 256, d=128))
ROWS = (_shapes.ROWS_SQUARE, (3, 300), (2, 2048), (1, 4096))


def _qkv(axes: Axes, draws: Draws) -> Arrays:
    key = draws.normal((*axes.k[:2], 1, axes.d))
    k = np.broadcast_to(key, axes.k)
    return {"q": draws.normal(axes.q), "k": k, "v": with_ones(draws, axes)}


def _x(shape: tuple[int, int], draws: Draws) -> Array:
    return np.broadcast_to(8 * draws.normal((shape[0], 1)), shape)


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for axes in AXES:
            yield plan.attention(NAME, "", axes, partial(_qkv, axes))
        return
    for shape in ROWS:
        yield plan.rows(NAME, "", shape, partial(_x, shape))


FAMILY = Family(
    name=NAME,
    hypothesis="Repeated maxima are counted once, or their equal roundings add up to a bias.",
    effect="Uniform attention, common in early layers and on padding, is not uniform.",
    source="Qiu, Yao: Why low-precision transformer training fails, arXiv 2510.04212, 2025 "
    "(repeated maxima and identical roundings).",
    cases=_cases,
)
