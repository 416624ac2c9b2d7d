"""A bias that is constant along each row: 50 in one, -300 in the next.

Softmax does not change and the LSE shifts by the constant; a kernel that skips the shift, or takes
the maximum of a tile for that of a row, fails in some rows only.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Case, Plan
from verify.families import _shapes
from verify.families._values import normal_qkv
from verify.family import Family
from verify.integers import Draws

NAME = "row_constant"
CONSTANTS = (50.0, -300.0, 0.0, 1000.0, -12000.0)


def _qkv(axes: Axes, draws: Draws) -> Arrays:
    constant = np.resize(np.array(CONSTANTS), axes.n_q)[:, None]
    return {**normal_qkv(axes, draws), "bias": np.broadcast_to(constant, axes.scores)}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for axes in (_shapes.SQUARE, Axes(7, 37, d=16, heads=2)):
            yield plan.attention(NAME, "", axes, partial(_qkv, axes), extras=("bias",))


FAMILY = Family(
    name=NAME,
    hypothesis=(
        "Rows of one tile share a maximum, or the bias is added after the maximum was taken."
    ),
    effect="Rows with a very different offset from their neighbours vanish.",
    source=(
        "Metamorphic testing: Chen, Cheung, Yiu, HKUST-CS98-01, 1998; Blanchard, "
        "Higham, Higham, IMA J. Numer. Anal. 41(4), 2021 (invariance under shifts)."
    ),
    cases=_cases,
)
