"""Scores of 8 to 18 below the maximum in fp16, of 86 to 105 below it in the wider formats.

P = exp(s - m) is then a subnormal number with few bits, and large V make those bits count.
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

NAME = "p_subnormal"
RANGES = {15: (8, 10), 127: (86, 19)}  # by emax: first distance below the maximum, and width


def _units(fmt: Format, n: int) -> Integers:
    first, width = RANGES[fmt.emax]
    units = -(first * 64 + np.arange(n) * width * 64 // n)
    units[0] = 0
    return np.asarray(units[None, :], np.int64)


def _qkv(fmt: Format, axes: Axes, draws: Draws) -> Arrays:
    v = (4.0 if fmt.emax == 15 else 2.0**116) * np.abs(draws.normal(axes.v))
    v[..., 0, :] = 2.0**-10
    return {**exact_qk(fmt, axes, _units(fmt, axes.n_k)), "v": v}


def _x(fmt: Format, n: int, draws: Draws) -> Array:
    return np.asarray(_units(fmt, n) * 2.0**-6, np.float64)


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.format.emax not in RANGES:
        return
    if plan.operation == "attention":
        for axes in (Axes(16, 64), Axes(2, 640), Axes(3, 131, d=16)):
            yield plan.attention(NAME, "", axes, partial(_qkv, plan.format, axes))
        return
    for n in (64, 640):
        yield plan.rows(NAME, "", (1, n), partial(_x, plan.format, n))


FAMILY = Family(
    name=NAME,
    hypothesis=(
        "Subnormal P are flushed to zero, or rounded in a format with fewer exponents "
        "than declared."
    ),
    effect=("Long tails of small probabilities lose their mass, which large values make visible."),
    source=(
        "Fasi, Higham, Mikaitis, Pranesh: Numerical behavior of NVIDIA tensor cores, "
        "PeerJ Computer Science 7:e330, 2021 (subnormal operands)."
    ),
    cases=_cases,
)
