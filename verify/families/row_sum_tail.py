"""One term 1 and many terms just below or just above half an ulp of 1.

Below, a running sum in that format drops every one of them; above, it counts every one double.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families._exact_scores import Integers, exact_qk
from verify.families._thresholds import LN_U, below, value_below
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws

NAME = "row_sum_tail"
FINE = -8


def _tails(fmt: Format) -> Iterator[tuple[str, int, Array]]:
    """Name, attention score in units of 2^FINE, and x: the format's values around the edge."""
    for owner in dict.fromkeys((fmt.name, "fp32")):
        units = below(LN_U[owner], FINE)
        edge, exponent = value_below(LN_U[owner], fmt)
        yield f"{owner}-below", units - 4, np.ldexp(np.float64(edge), exponent)
        yield f"{owner}-above", units + 4, np.ldexp(np.float64(edge + 1), exponent)


def _units(n: int, tail: int, place: int) -> Integers:
    units = np.full((1, n), tail, np.int64)
    units[0, place] = 0
    return units


def _qkv(fmt: Format, axes: Axes, tail: int, place: int, draws: Draws) -> Arrays:
    v = 1 + draws.uniform(axes.v)
    v[..., place, 1::2] = 0.0
    return {**exact_qk(fmt, axes, _units(axes.n_k, tail, place), FINE), "v": v}


def _x(n: int, tail: Array, place: int, draws: Draws) -> Array:
    return np.where(np.arange(n) == place, 0.0, tail)[None, :]


def _cases(plan: Plan) -> Iterator[Case]:
    for name, units, tail in _tails(plan.format):
        for n, place in ((512, 0), (1023, 1022)):
            case = f"{name}-{place}"
            extensive = place > 0 and not name.startswith(plan.format.name)
            if plan.operation == "attention":
                axes = Axes(2, n)
                recipe = partial(_qkv, plan.format, axes, units, place)
                yield plan.attention(NAME, case, axes, recipe, extensive=extensive)
            else:
                recipe_x = partial(_x, n, tail, place)
                yield plan.rows(NAME, case, (1, n), recipe_x, extensive=extensive)


FAMILY = Family(
    name=NAME,
    hypothesis="The row sum runs in a format whose half ulp swallows or doubles the small terms.",
    effect="Rows with one strong key and a long tail are wrong by up to the tail's whole mass.",
    source="Blanchard, Higham, Mary: A class of fast and accurate summation algorithms, SIAM J. "
    "Sci. Comput. 42(3), 2020 (loss of small terms in recursive summation).",
    cases=_cases,
    seeds=1,
)
