"""P read off key by key: scores -t for t on a grid over [0, 104], and V the identity.

Each output is one exponential over the row sum, so the error of exp itself is seen along its whole
range.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families._exact_scores import Integers, exact_qk, rows_that_fit
from verify.families._values import identity
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws

NAME = "exp_ladder"
TOP = 104 * 64


def _ladder(rows: int, n: int) -> Integers:
    """Row i holds 0 and n - 1 steps of the grid, interleaved between rows."""
    t = (np.arange(rows * (n - 1)) * TOP // (rows * (n - 1))).reshape(n - 1, rows).T
    return np.asarray(-np.hstack([np.zeros((rows, 1), np.int64), t]), np.int64)


def _pairs(rows: int) -> Integers:
    """Two keys: O is the logistic function of t."""
    t = np.arange(rows) * 20 * 64 // rows
    return np.asarray(np.stack([np.zeros_like(t), -t], axis=1), np.int64)


def _qkv(fmt: Format, axes: Axes, draws: Draws) -> Arrays:
    rows = rows_that_fit(fmt, axes, TOP)
    units = _pairs(rows) if axes.n_k == 2 else _ladder(rows, axes.n_k)
    v = identity(axes)
    return {**exact_qk(fmt, axes, units), "v": v}


def _x(rows: int, n: int, draws: Draws) -> Array:
    return np.asarray((_pairs(rows) if n == 2 else _ladder(rows, n)) * 2.0**-6, np.float64)


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for axes in (Axes(16, 64), Axes(16, 64, d=256), Axes(16, 2, d_v=2)):
            recipe = partial(_qkv, plan.format, axes)
            yield plan.attention(NAME, "", axes, recipe, smoke=axes.d == 64 and axes.n_k == 64)
        return
    for rows, n in ((8, 512), (64, 2)):
        yield plan.rows(NAME, "", (rows, n), partial(_x, rows, n), smoke=n == 512)


FAMILY = Family(
    name=NAME,
    hypothesis=(
        "exp is approximated more coarsely than declared, is biased, or flushes too early."
    ),
    effect=("Every probability carries the error, and biased ones add up over keys and layers."),
    source=(
        "Dao-AILab/flash-attention pull request 2067 and issue 2081 (polynomial exp2); "
        "Gladman, Innocente, Mather, Zimmermann: Accuracy of mathematical functions, "
        "2024."
    ),
    cases=_cases,
    seeds=1,
)
