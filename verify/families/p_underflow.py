"""All keys but one lie where P rounds to zero, and their values are huge.

Up to half the smallest subnormal is lost per key: the error is bounded by n lambda / 2 max |v|, not
by any relative error.
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

NAME = "p_underflow"
# By emax: first distance below the maximum, its width, log2 of the tail's and of the first value.
# The sum of all |v| must not overflow: a kernel may meet the tail before it meets the maximum.
RANGES = {15: (17, 8, 14, 0), 127: (103, 6, 115, -18)}


def _units(fmt: Format, n: int) -> Integers:
    first, width = RANGES[fmt.emax][:2]
    units = -(first * 64 + np.arange(n) * width * 64 // n)
    units[0] = 0
    return np.asarray(units[None, :], np.int64)


def _qkv(fmt: Format, axes: Axes, draws: Draws) -> Arrays:
    tail, head = RANGES[fmt.emax][2:]
    v = draws.signs(axes.v) * np.ldexp(1.0 + draws.uniform(axes.v), tail)
    v[..., 0, :] = np.ldexp(1.0, head)
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
