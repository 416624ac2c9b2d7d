"""The maximum rises by just under or just over 8 ln 2 in every block.

A kernel that puts its rescale off below a threshold of 8 (log2) keeps a stale maximum, and P grows
to 256 or more: past 448 it saturates an 8-bit format while the row sum does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families._exact_scores import Integers, exact_qk, rows_that_fit
from verify.families._thresholds import LN2, below
from verify.families._values import with_ones
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws

NAME = "lazy_rescale_jump"
EDGE = below(8 * LN2, -6)
JUMPS = {"under": EDGE, "over": EDGE + 1, "half": EDGE // 2 + 2}
BLOCKS = (16, 64, 128)


def _units(rows: int, n: int, jump: int, draws: Draws) -> Integers:
    block = np.array(BLOCKS)[np.arange(rows) % len(BLOCKS), None]
    top = np.arange(n) // block * jump
    drop = draws.integers(0, 96, (rows, n))
    drop[np.broadcast_to(np.arange(n) % block == 0, drop.shape)] = 0
    return np.asarray(top - drop, np.int64)


def _qkv(fmt: Format, axes: Axes, jump: int, draws: Draws) -> Arrays:
    rows = rows_that_fit(fmt, axes, axes.n_k // BLOCKS[0] * jump + 1)
    units = _units(rows, axes.n_k, jump, draws)
    return {**exact_qk(fmt, axes, units), "v": np.abs(with_ones(draws, axes))}


def _x(shape: tuple[int, int], jump: int, draws: Draws) -> Array:
    return np.asarray(_units(*shape, jump, draws) * 2.0**-6, np.float64)


def _cases(plan: Plan) -> Iterator[Case]:
    for name, jump in JUMPS.items():
        if plan.operation == "attention":
            for axes in (Axes(6, 512), Axes(9, 195))[: 1 if name == "half" else 2]:
                yield plan.attention(NAME, name, axes, partial(_qkv, plan.format, axes, jump))
        else:
            yield plan.rows(NAME, name, (3, 512), partial(_x, (3, 512), jump))


FAMILY = Family(
    name=NAME,
    hypothesis="A conditional rescale compares with the wrong sign or frame, or lets P saturate.",
    effect="Errors of ten per cent appear exactly at tile boundaries and nowhere else.",
    source="Dao-AILab/flash-attention issues 2577, 2716, pull requests 2713 and 2731 (FA4 lazy "
    "rescale, threshold 8).",
    cases=_cases,
)
