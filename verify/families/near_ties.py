"""The largest scores differ by less than one ulp of the input format at their size.

Stored in 16 bits they become equal, or change their order; in binary32 they are exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families._exact_scores import exact_qk, rows_that_fit
from verify.families._values import signs
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws

NAME = "near_ties"
FINE = -12
LEVELS = (32, 128, 1000)


def _qkv(fmt: Format, axes: Axes, level: int, draws: Draws) -> Arrays:
    """Scores within half an ulp of the level, where the format's ulp is a multiple of 2^FINE."""
    ulp = max(64, int(float(fmt.ulp(np.array([float(level)]))[0]) * 2**12))
    rows = rows_that_fit(fmt, axes, level * 2**12 + ulp)
    units = level * 2**12 + draws.integers(-ulp // 2, ulp // 2 + 1, (rows, axes.n_k))
    return {**exact_qk(fmt, axes, units, FINE), "v": signs(axes) + 0.25 * draws.normal(axes.v)}


def _x(fmt: Format, shape: tuple[int, int], level: int, draws: Draws) -> Array:
    """The format's own values next to the level: one or two spacings apart."""
    return level + fmt.ulp(np.array(float(level))) * draws.integers(-2, 3, shape)


def _cases(plan: Plan) -> Iterator[Case]:
    for level in LEVELS:
        name, notes = f"S{level}", {"level": float(level)}
        if plan.operation == "attention":
            for axes in (Axes(16, 32), Axes(5, 67, d=256))[: 2 if level == 32 else 1]:
                recipe = partial(_qkv, plan.format, axes, level)
                yield plan.attention(NAME, name, axes, recipe, notes=notes)
        else:
            recipe_x = partial(_x, plan.format, (4, 96), level)
            yield plan.rows(NAME, name, (4, 96), recipe_x, notes=notes)


FAMILY = Family(
    name=NAME,
    hypothesis="Scores are rounded to the input format before the softmax.",
    effect="The strongest key is replaced by another one, and probabilities move by e^(ulp / 2).",
    source="Dao-AILab/flash-attention issue 118 (keep the softmax in fp32?); Blanchard, Higham, "
    "Higham, IMA J. Numer. Anal. 41(4), 2021 (condition number of softmax).",
    cases=_cases,
)
