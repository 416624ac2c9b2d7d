"""Scores near -ln n, so that the log-sum-exp is close to 0.

M and ln l cancel: the condition number max|x| / |LSE| is large, and an error that is relative to
LSE cannot be met by computing in the input format.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families._exact_scores import Integers, exact_qk, rows_that_fit
from verify.families._thresholds import LN2, below, value_below
from verify.families._values import with_ones
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws

NAME = "vanishing_lse"
FINE = -18
POWERS = (2, 4, 6)  # n = 2^power


def _units(rows: int, power: int, draws: Draws) -> Integers:
    centre = below(-power * LN2, FINE)
    return np.asarray(centre + draws.integers(-64, 65, (rows, 2**power)), np.int64)


def _qkv(fmt: Format, axes: Axes, power: int, draws: Draws) -> Arrays:
    units = _units(rows_that_fit(fmt, axes, 2**21), power, draws)
    return {**exact_qk(fmt, axes, units, FINE), "v": with_ones(draws, axes)}


def _x(fmt: Format, power: int, draws: Draws) -> Array:
    """Values of the format within two spacings of -ln n."""
    units, exponent = value_below(-power * LN2, fmt)
    steps = draws.integers(-2, 3, (6, 2**power))
    return np.asarray(np.ldexp((units + steps).astype(np.float64), exponent), np.float64)


def _cases(plan: Plan) -> Iterator[Case]:
    for power in POWERS:
        if plan.operation == "attention":
            if power == 4:
                axes = Axes(16, 16)
                recipe = partial(_qkv, plan.format, axes, power)
                yield plan.attention(NAME, f"n{2**power}", axes, recipe)
        else:
            yield plan.rows(NAME, "", (6, 2**power), partial(_x, plan.format, power))


FAMILY = Family(
    name=NAME,
    hypothesis="LSE is rounded before its parts are added, or stored in 16 bits.",
    effect=("Gradients that recompute P from LSE, and merges of split rows, inherit the error."),
    source=(
        "Blanchard, Higham, Higham, IMA J. Numer. Anal. 41(4), 2021, section 3 "
        "(condition number of the log-sum-exp)."
    ),
    cases=_cases,
)
