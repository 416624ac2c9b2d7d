"""All keys but one lie where P rounds to zero, and their values are huge.

Up to half the smallest subnormal is lost per key: the error is bounded by n lambda / 2 max |v|, not
by any relative error.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Family, Plan
from verify.families._exact_scores import Integers, exact_qk
from verify.formats import Format
from verify.integers import Draws

NAME = "p_underflow"
RANGES = {15: (17, 8), 127: (103, 6)}  # by emax: first distance below the maximum, and width


def _units(fmt: Format, n: int) -> Integers:
    first, width = RANGES[fmt.emax]
    units = -(first * 64 + np.arange(n) * width * 64 // n)
    units[0] = 0
    return np.asarray(units[None, :], np.int64)


def _qkv(fmt: Format, axes: Axes, draws: Draws) -> Arrays:
    v = draws.signs(axes.v) * np.ldexp(1.0 + draws.uniform(axes.v), fmt.emax - 1)
    v[..., 0, :] = 1.0 if fmt.emax == 15 else 2.0**-6  # what the bound must not exceed
    return {**exact_qk(fmt, axes, _units(fmt, axes.n_k)), "v": v}


def _x(fmt: Format, n: int, draws: Draws) -> Array:
    return np.asarray(_units(fmt, n) * 2.0**-6, np.float64)


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.format.emax not in RANGES:
        return
    if plan.operation == "attention":
        for axes in (Axes(16, 64), Axes(2, 515)):
            yield plan.attention(NAME, "", axes, partial(_qkv, plan.format, axes))
        return
    yield plan.rows(NAME, "", (1, 515), partial(_x, plan.format, 515))


FAMILY = Family(
    name=NAME,
    hypothesis=(
        "exp never reaches zero (a clamp at its smallest argument), or a flushed P is "
        "counted elsewhere."
    ),
    effect="Masked-out or irrelevant keys with large values shift every output.",
    source=(
        "Schraudolph-style and clamped exponentials, for example the lower clamp of "
        "Eigen's vectorised pexp (https://gitlab.com/libeigen/eigen, "
        "GenericPacketMathFunctions.h)."
    ),
    cases=_cases,
)
