"""The first block holds the maximum, and every later block lies a step lower.

Nothing is rescaled, but P becomes smaller and smaller until it is subnormal and then 0.
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

NAME = "staircase_down"
STEPS = {"1": 64, "5": 320}
BLOCKS = (16, 32, 64)


def _units(rows: int, n: int, step: int, draws: Draws) -> Integers:
    block = np.array(BLOCKS)[np.arange(rows) % len(BLOCKS), None]
    return np.asarray(-(np.arange(n) // block) * step - draws.integers(0, 64, (rows, n)), np.int64)


def _qkv(fmt: Format, axes: Axes, step: int, draws: Draws) -> Arrays:
    rows = rows_that_fit(fmt, axes, axes.n_k // BLOCKS[0] * step + 64)
    v = with_ones(draws, axes)
    v[..., 1:] *= np.ldexp(1.0, np.minimum(np.arange(axes.n_k) // 32, 8))[:, None]
    return {**exact_qk(fmt, axes, _units(rows, axes.n_k, step, draws)), "v": v}


def _x(shape: tuple[int, int], step: int, draws: Draws) -> Array:
    return np.asarray(_units(*shape, step, draws) * 2.0**-6, np.float64)


def _cases(plan: Plan) -> Iterator[Case]:
    for name, step in STEPS.items():
        if plan.operation == "attention":
            for axes in (Axes(64, 64), Axes(6, 500)):
                yield plan.attention(
                    NAME, f"step{name}", axes, partial(_qkv, plan.format, axes, step)
                )
        else:
            yield plan.rows(NAME, f"step{name}", (3, 500), partial(_x, (3, 500), step))


FAMILY = Family(
    name=NAME,
    hypothesis="A later, smaller block replaces the maximum, or its small P are flushed early.",
    effect="Old tokens take over rows that belong to recent ones, or the reverse.",
    source="Milakov, Gimelshein: Online normalizer calculation for softmax, arXiv 1805.02867, "
    "2018, theorem 1.",
    cases=_cases,
)
