"""n equal scores and V = 1: the row sum counts to n and the output is exactly 1.

A row sum in a p-bit format stops at 2^p; the output then becomes n / 2^p.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.family import Family
from verify.integers import Draws

NAME = "row_sum_stagnation"


def _qkv(axes: Axes, draws: Draws) -> Arrays:
    return {"q": draws.normal(axes.q), "k": np.zeros(axes.k), "v": np.ones(axes.v)}


def _x(shape: tuple[int, int], draws: Draws) -> Array:
    return np.zeros(shape)


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for axes in (Axes(16, 512), Axes(512, 512, d=16), Axes(4, 4096), Axes(2, 4099, d=16)):
            smoke = axes.n_k == 4096
            yield plan.attention(NAME, "", axes, partial(_qkv, axes), smoke=smoke)
        axes = Axes(2, 65536, d=4)
        yield plan.attention(NAME, "", axes, partial(_qkv, axes), extensive=True)
        return
    for n in (257, 512, 2049, 4096, 65536):
        smoke = n == 4096
        yield plan.rows(NAME, "", (1, n), partial(_x, (1, n)), smoke=smoke)


FAMILY = Family(
    name=NAME,
    hypothesis="The row sum is accumulated in the input format and stops growing at 2^p.",
    effect="Long uniform rows are scaled by n / 2^p: outputs several times too large.",
    source="Higham: Accuracy and Stability of Numerical Algorithms, 2nd ed. 2002, chapter 4 "
    "(stagnation of recursive summation); Blanchard, Higham, Higham, IMA J. Numer. Anal. 41(4), "
    "2021 (the n u term of softmax).",
    cases=_cases,
    seeds=1,
)
