"""Long flat rows with a loss that is a mean: dS of order 1 / n^2, below the range of 16 bits.

P is about 1 / n and dO about 1 / n: binary16 loses dS where a kernel stores it, and the model says
by how much; a kernel that keeps dS in binary32 has the gradients right.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Case, Family, Plan
from verify.integers import Draws
from verify.operation import Operation

NAME = "flat_rows_gradient"


def _inputs(axes: Axes, draws: Draws) -> Arrays:
    small = np.ldexp(1.0, -axes.n_k.bit_length())
    return {
        "q": draws.normal(axes.q) * 0.25,
        "k": draws.normal(axes.k) * 0.25,
        "v": draws.normal(axes.v),
        "do": draws.normal((axes.batch, axes.heads, axes.n_q, axes.d_v)) * small,
    }


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention_backward":
        return
    for axes, extensive in ((Axes(4, 1024, d=16), False), (Axes(2, 4096, d=16), True)):
        yield plan.attention(
            NAME, "", axes, partial(_inputs, axes), operation=Operation(plan.operation),
            extensive=extensive,
        )  # fmt: skip


FAMILY = Family(
    name=NAME,
    hypothesis="dS is flushed or rounded more coarsely than its format demands.",
    effect="Long contexts stop learning: their gradients are 0 without loss scaling.",
    source="Micikevicius et al.: Mixed precision training, arXiv 1710.03740, 2018 (loss scaling); "
    "dS ~ |dO| |V| / n on flat rows.",
    cases=_cases,
    direction="backward",
)
