"""One entry lies 1 to 40 above all others: p is 1 minus almost nothing.

log p is then almost 0 and LSE almost the maximum: computed as a difference of rounded numbers they
have no correct digit.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families._exact_scores import Integers, exact_qk
from verify.families._values import with_ones
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws

NAME = "dominant_entry"
GAPS = (1, 2, 4, 8, 12, 16, 20, 40)


def _units(n: int, draws: Draws) -> Integers:
    gaps = np.array(GAPS)[:, None]
    units = -gaps * 64 - draws.integers(0, 128, (len(GAPS), n))
    units[np.arange(len(GAPS)), draws.integers(0, n, (len(GAPS),))] = 0
    return np.asarray(units, np.int64)


def _qkv(fmt: Format, axes: Axes, draws: Draws) -> Arrays:
    units = _units(axes.n_k, draws)
    return {**exact_qk(fmt, axes, units), "v": with_ones(draws, axes)}


def _x(n: int, draws: Draws) -> Array:
    return np.asarray(_units(n, draws) * 2.0**-6, np.float64)


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for axes in (Axes(16, 32), Axes(8, 131)):
            yield plan.attention(NAME, "", axes, partial(_qkv, plan.format, axes))
        return
    for n in (2, 32, 131):
        yield plan.rows(NAME, "", (len(GAPS), n), partial(_x, n))


FAMILY = Family(
    name=NAME,
    hypothesis=(
        "log p is computed as log(softmax(x)), or ln l loses the terms that are small beside 1."
    ),
    effect="Losses and their gradients vanish or become -inf on confident predictions.",
    source=(
        "Blanchard, Higham, Higham, IMA J. Numer. Anal. 41(4), 2021, section 5 (log1p "
        "in the log-sum-exp)."
    ),
    cases=_cases,
)
