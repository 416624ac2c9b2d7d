"""Row maxima near 1e3, 1e4 and 1e5 that differ by fractions from block to block.

A kernel that folds log2 e into the scale rounds m log2 e in each block and rescales with a factor
that does not contain that rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families._exact_scores import Integers, exact_qk, rows_that_fit
from verify.families._values import with_ones
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws

NAME = "log2e_fusion"
LEVELS = (1000, 10_000, 100_000, -10_000)
BLOCKS = (16, 64, 128)


def _units(rows: int, n: int, level: int, draws: Draws) -> Integers:
    block = np.arange(n) // np.array(BLOCKS)[np.arange(rows) % len(BLOCKS), None]
    return np.asarray(level * 64 + block * 37 % 64 - draws.integers(0, 128, (rows, n)), np.int64)


def _qkv(fmt: Format, axes: Axes, level: int, draws: Draws) -> Arrays:
    rows = rows_that_fit(fmt, axes, abs(level) * 64 + 256)
    units = _units(rows, axes.n_k, level, draws)
    return {**exact_qk(fmt, axes, units), "v": with_ones(draws, axes)}


def _x(shape: tuple[int, int], level: int, draws: Draws) -> Array:
    return np.asarray(_units(*shape, level, draws) * 2.0**-6, np.float64)


def _cases(plan: Plan) -> Iterator[Case]:
    for level in LEVELS:
        name, notes = f"S{level}", {"level": float(level)}
        if plan.operation == "attention":
            axes = Axes(6, 256)
            recipe = partial(_qkv, plan.format, axes, level)
            yield plan.attention(NAME, name, axes, recipe, notes=notes)
        elif plan.format.p == 24:  # shorter formats cannot hold a fraction at these levels
            recipe_x = partial(_x, (6, 256), level)
            yield plan.rows(NAME, name, (6, 256), recipe_x, notes=notes)


FAMILY = Family(
    name=NAME,
    hypothesis="exp2(s c - m c) uses one rounding of m c in P and another in the rescale.",
    effect=(
        "Blocks of one row are weighted wrongly by up to half a per cent where scores are large."
    ),
    source=("Dao-AILab/flash-attention csrc/flash_attn/src/softmax.h (scale_apply_exp2, rescale)."),
    cases=_cases,
)
