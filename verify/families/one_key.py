"""A single visible key: P is exactly 1 and the output is its value, bit for bit.

Whatever the score is, exp(s - m) = exp(0); only a kernel that computes s - m inexactly returns
anything else, and it shows at |s| = 1e6.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families import _shapes
from verify.family import Family
from verify.integers import Draws
from verify.operation import Operation

NAME = "one_key"
LEVELS = (0, 100, -100, 1_000_000, -1_000_000)


def _qkv(axes: Axes, level: int, draws: Draws) -> Arrays:
    q, k = draws.normal(axes.q), draws.normal(axes.k)
    q[..., 0], k[..., 0] = 1024.0, level / 128
    return {"q": q, "k": k, "v": draws.normal(axes.v)}


def _x(level: float, rows: int, draws: Draws) -> Array:
    return np.full((rows, 1), level)


def _cases(plan: Plan) -> Iterator[Case]:
    for level in LEVELS:
        name, notes = f"S{level}", {"level": float(level)}
        if plan.operation == "attention":
            axes = Axes(4, 1)
            recipe = partial(_qkv, axes, level)
            yield plan.attention(NAME, name, axes, recipe, smoke=level == 1_000_000, notes=notes)
        else:
            yield plan.rows(NAME, name, (2, 1), partial(_x, float(level), 2), notes=notes)
    if plan.operation == "attention":
        window = Operation("attention", window=(0, 0))
        for axes in (_shapes.SQUARE, Axes(3, 19)):
            recipe = partial(_qkv, axes, -100)
            yield plan.attention(NAME, "window", axes, recipe, operation=window)


FAMILY = Family(
    name=NAME,
    hypothesis=(
        "exp2(fma(s, c, -round(m c))) is not 1 at s = m, or the division does not cancel it."
    ),
    effect="The first token of every sequence, and every single-key row, is inexact.",
    source=("Dao-AILab/flash-attention csrc/flash_attn/src/softmax.h (exp2 with a fused scale)."),
    cases=_cases,
)
