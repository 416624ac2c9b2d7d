"""The maximum jumps by 30 to 200 in the last keys, or falls by that much after the first ones.

After a jump past 104 the rescale factor is exactly 0 in binary32: all earlier keys must vanish,
without 0 times infinity; after a fall the old maximum must stay.
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

NAME = "late_jump"
JUMPS = (30, 90, 105, 200)


def _units(rows: int, n: int, jump: int, late: int, draws: Draws) -> Integers:
    """The last `late` keys (the first -late, if negative) lie `jump` above the others."""
    high = np.arange(n) >= n - late if late > 0 else np.arange(n) < -late
    level = np.where(high, jump // 2, jump // 2 - jump) * 64
    return np.asarray(level - draws.integers(0, 128, (rows, n)), np.int64)


def _qkv(fmt: Format, axes: Axes, jump: int, late: int, draws: Draws) -> Arrays:
    rows = rows_that_fit(fmt, axes, jump * 64 + 128)
    units = _units(rows, axes.n_k, jump, late, draws)
    return {**exact_qk(fmt, axes, units), "v": with_ones(draws, axes)}


def _x(shape: tuple[int, int], jump: int, late: int, draws: Draws) -> Array:
    return np.asarray(_units(*shape, jump, late, draws) * 2.0**-6, np.float64)


def _cases(plan: Plan) -> Iterator[Case]:
    for jump in JUMPS:
        for late, name in ((1, "last-key"), (16, "last-block"), (-16, "fall")):
            extensive = (jump, late) in ((30, 1), (30, 16), (90, 16), (105, 16), (105, -16))
            if plan.operation == "attention":
                axes = Axes(8, 256) if late != 1 else Axes(16, 64)
                recipe = partial(_qkv, plan.format, axes, jump, late)
                smoke = jump == 200 and late == -16
                yield plan.attention(
                    NAME, f"{name}-{jump}", axes, recipe, smoke=smoke, extensive=extensive
                )
            else:
                recipe_x = partial(_x, (4, 256), jump, late)
                yield plan.rows(NAME, f"{name}-{jump}", (4, 256), recipe_x, extensive=extensive)


FAMILY = Family(
    name=NAME,
    hypothesis="The online rescale overflows, keeps what should vanish, or forgets the old "
    "maximum.",
    effect="Rows whose strongest key stands first or last are wrong or NaN.",
    source="Dao-AILab/flash-attention csrc softmax.h (guards of the online rescale); Milakov, "
    "Gimelshein, arXiv 1805.02867, 2018, algorithm 3.",
    cases=_cases,
)
