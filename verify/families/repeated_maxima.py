"""Two to five keys tie for the maximum and all values have one sign.

Every tie rounds in the same direction, so errors that usually average out add up to a bias.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families._exact_scores import Integers, exact_qk
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws

NAME = "repeated_maxima"
TIES = (2, 3, 5)


def _units(n: int, ties: int, draws: Draws) -> Integers:
    units = -64 - draws.integers(0, 192, (len(TIES), n))
    units[:, n // 7 :: n // ties] = 0
    return np.asarray(units, np.int64)


def _qkv(fmt: Format, axes: Axes, ties: int, draws: Draws) -> Arrays:
    v = -(1 + np.abs(draws.normal(axes.v)))
    return {**exact_qk(fmt, axes, _units(axes.n_k, ties, draws)), "v": v}


def _x(n: int, ties: int, draws: Draws) -> Array:
    return np.asarray(4 + _units(n, ties, draws) * 2.0**-6, np.float64)


def _cases(plan: Plan) -> Iterator[Case]:
    for ties in TIES:
        if plan.operation == "attention":
            axes = Axes(16, 64) if ties == 3 else Axes(3, 257, d=16)
            yield plan.attention(NAME, f"{ties}", axes, partial(_qkv, plan.format, axes, ties))
        else:
            yield plan.rows(NAME, f"{ties}", (3, 130), partial(_x, 130, ties))


FAMILY = Family(
    name=NAME,
    hypothesis="Repeated maxima are counted once, or their roundings accumulate with one sign.",
    effect=("Training drifts and explodes after thousands of steps although each error is tiny."),
    source=("Qiu, Yao: Why low-precision transformer training fails, arXiv 2510.04212, 2025."),
    cases=_cases,
)
