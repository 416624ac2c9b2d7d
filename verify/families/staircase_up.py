"""Every block of keys raises the running maximum by a step.

An online kernel rescales its accumulator in every block: each rescale multiplies, rounds, and must
use the old and the new maximum in the right places.
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

NAME = "staircase_up"
BLOCKS = (16, 32, 64, 128)
STEPS = {"2.625": 168, "4": 256, "5": 320, "20": 1280}  # in units of 1/64


def _units(rows: int, n: int, step: int, draws: Draws) -> Integers:
    """Row i climbs once per BLOCKS[i mod 4] keys; inside a block the scores spread over 1."""
    block = np.array(BLOCKS)[np.arange(rows) % len(BLOCKS), None]
    climb = np.arange(n) // block * step
    return np.asarray(climb - draws.integers(0, 64, (rows, n)), np.int64)


def _qkv(fmt: Format, axes: Axes, step: int, draws: Draws) -> Arrays:
    rows = rows_that_fit(fmt, axes, axes.n_k // BLOCKS[0] * step + 64)
    units = _units(rows, axes.n_k, step, draws)
    return {**exact_qk(fmt, axes, units), "v": with_ones(draws, axes)}


def _x(shape: tuple[int, int], step: int, draws: Draws) -> Array:
    return np.asarray(_units(*shape, step, draws) * 2.0**-6, np.float64)


def _cases(plan: Plan) -> Iterator[Case]:
    for name, step in STEPS.items():
        smoke = name == "4"
        if plan.operation == "attention":
            for axes in (Axes(64, 64), Axes(8, 512), Axes(4, 333, d=16))[: 3 if smoke else 2]:
                yield plan.attention(
                    NAME,
                    f"step{name}",
                    axes,
                    partial(_qkv, plan.format, axes, step),
                    smoke=smoke and axes.n_k == 512,
                    extensive=axes.n_k == 64 and name in ("2.625", "20"),
                )
        else:
            for shape in ((4, 512), (4, 333)):
                recipe = partial(_x, shape, step)
                odd = shape == (4, 333)
                yield plan.rows(
                    NAME,
                    f"step{name}",
                    shape,
                    recipe,
                    smoke=smoke and not odd,
                    extensive=odd and name in ("4", "5"),
                )


FAMILY = Family(
    name=NAME,
    hypothesis="The online rescale is skipped, doubled, applied to the wrong term, or lets P grow "
    "past its format while the maximum lags.",
    effect="Rows with ascending scores, such as recent tokens under causal attention, are wrong.",
    source="Dao-AILab/flash-attention issues 2577 and 2716 (P saturates at the tile boundary); "
    "Milakov, Gimelshein: Online normalizer calculation for softmax, arXiv 1805.02867, 2018.",
    cases=_cases,
)
