"""Equal probabilities over one value 1/u and many values 1.

The first product fills the accumulator's significand, and a P V accumulator in the input format
loses every later one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Case, Plan
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws

NAME = "pv_stagnation"
LARGEST = 2.0**11  # in binary32, what a 16-bit accumulator loses and its own keeps
SHAPES = (Axes(16, 512), Axes(64, 64, d=16), Axes(2, 4096, d=16), Axes(3, 257, d=16, d_v=8))


def _qkv(fmt: Format, axes: Axes, draws: Draws) -> Arrays:
    v = np.ones(axes.v)
    big = min(1 / fmt.u, LARGEST)
    v[..., 0, 0::2] = big
    v[..., 0, 1::2] = -big
    return {"q": draws.normal(axes.q), "k": np.zeros(axes.k), "v": v}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for axes in SHAPES:
            recipe = partial(_qkv, plan.format, axes)
            yield plan.attention(NAME, "", axes, recipe, smoke=axes.n_k == 512)


FAMILY = Family(
    name=NAME,
    hypothesis="P V is accumulated in the input format.",
    effect="Small values disappear beside one large value: 20 % error at n = 512 in fp16, 67 % in "
    "bf16.",
    source="Higham: Accuracy and Stability of Numerical Algorithms, 2nd ed. 2002, chapter 4; "
    "DeepSeek-V3 technical report, arXiv 2412.19437, section 3.3.2 (accumulation precision).",
    cases=_cases,
)
