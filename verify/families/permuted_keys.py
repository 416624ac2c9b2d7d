"""The same keys in ascending, descending and drawn order of their scores.

The exact output does not depend on the order, but an online kernel takes a different path: a new
maximum at every key, or never again.
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

NAME = "permuted_keys"
ORDERS = ("ascending", "descending", "drawn")


def _units(n: int, order: str, draws: Draws) -> Integers:
    units = draws.integers(-20 * 64, 0, (n,))
    if order != "drawn":
        units = np.sort(units)[:: 1 if order == "ascending" else -1]
    return np.asarray(units[None, :], np.int64)


def _qkv(fmt: Format, axes: Axes, order: str, draws: Draws) -> Arrays:
    units = _units(axes.n_k, order, draws)
    return {**exact_qk(fmt, axes, units), "v": with_ones(draws, axes)}


def _x(n: int, order: str, draws: Draws) -> Array:
    return np.asarray(_units(n, order, draws) * 2.0**-6, np.float64)


def _cases(plan: Plan) -> Iterator[Case]:
    for order in ORDERS:
        if plan.operation == "attention":
            axes = Axes(2, 520, d=16)
            yield plan.attention(NAME, order, axes, partial(_qkv, plan.format, axes, order))
        else:
            yield plan.rows(NAME, order, (1, 520), partial(_x, 520, order))


FAMILY = Family(
    name=NAME,
    hypothesis="The result depends on the order of the keys by more than rounding.",
    effect="Sorting or packing a cache changes results.",
    source=(
        "Metamorphic testing: Chen, Cheung, Yiu, HKUST-CS98-01, 1998; Milakov, "
        "Gimelshein, arXiv 1805.02867, 2018."
    ),
    cases=_cases,
)
