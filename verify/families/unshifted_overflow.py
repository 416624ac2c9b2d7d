"""One score just past the overflow threshold of exp, all others near 0.

With the shift this is an ordinary sharp row; without it one exponential is infinite and the rest
are divided by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families._exact_scores import Integers, exact_qk, rows_that_fit
from verify.families._thresholds import THRESHOLDS, below
from verify.families._values import with_ones
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws

NAME = "unshifted_overflow"
FINE = -6


def _tops(fmt: Format) -> dict[str, int]:
    """Scores of 1/16 to 1 past the threshold, in units of 1/64."""
    found: dict[str, int] = {}
    for owner in (fmt.name,) if fmt.emax == 127 else (fmt.name, "fp32"):
        edge = below(THRESHOLDS[owner].overflow, FINE)
        found |= {f"{owner}-edge": (edge // 4 + 1) * 4, f"{owner}-past": edge + 64}
    return found


def _units(rows: int, n: int, top: int, draws: Draws) -> Integers:
    units = draws.integers(-128, 129, (rows, n))
    units[np.arange(rows), draws.integers(0, n, (rows,))] = top
    return units


def _qkv(fmt: Format, axes: Axes, top: int, draws: Draws) -> Arrays:
    units = _units(rows_that_fit(fmt, axes, top + 1), axes.n_k, top, draws)
    return {**exact_qk(fmt, axes, units, FINE), "v": with_ones(draws, axes)}


def _x(shape: tuple[int, int], top: int, draws: Draws) -> Array:
    return np.asarray(_units(*shape, top, draws) * 2.0**FINE, np.float64)


def _cases(plan: Plan) -> Iterator[Case]:
    for name, top in _tops(plan.format).items():
        notes = {"level": top / 64}
        if plan.operation == "attention":
            axes = Axes(16, 64)
            recipe = partial(_qkv, plan.format, axes, top)
            yield plan.attention(NAME, name, axes, recipe, notes=notes)
        else:
            yield plan.rows(NAME, name, (4, 64), partial(_x, (4, 64), top), notes=notes)


FAMILY = Family(
    name=NAME,
    hypothesis="exp is applied to s instead of s - m.",
    effect="One strong key turns its row into NaN or zeros.",
    source="Milakov, Gimelshein: Online normalizer calculation for softmax, arXiv 1805.02867, 2018 "
    "(why frameworks compute the safe softmax).",
    cases=_cases,
)
