"""All components of q and k are 64, so q . k passes 65504 long before the scale is applied.

Kept in fp16, the products are infinite and s - m is inf - inf; in binary32 nothing happens.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Case, Plan
from verify.families._values import with_ones
from verify.family import Family
from verify.integers import Draws

NAME = "score_overflow"
SHAPES = (Axes(16, 32), Axes(3, 33, d=128))


def _qkv(axes: Axes, sign: float, draws: Draws) -> Arrays:
    q = np.full(axes.q, 64.0)
    k = np.full(axes.k, 64.0 * sign)
    k[..., 0] -= np.arange(axes.n_k) % 4 * 0.5  # scores 32 apart per step
    k[..., 1] -= np.arange(axes.n_k) % 3 * 0.5
    return {"q": q, "k": k, "v": with_ones(draws, axes)}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for name, sign in (("positive", 1.0), ("negative", -1.0)):
            for axes in SHAPES:
                recipe = partial(_qkv, axes, sign)
                yield plan.attention(NAME, name, axes, recipe, smoke=axes.d == 64 and sign > 0)


FAMILY = Family(
    name=NAME,
    hypothesis="Raw or scaled scores are stored in fp16 and overflow.",
    effect="Large activations give NaN in fp16 although every input and the result are ordinary.",
    source=(
        "pytorch/pytorch issues 119131 (a product of 784449 in fp16) and 160841; "
        "microsoft/onnxruntime issue 28195 (fp16 scores overflow, NaN)."
    ),
    cases=_cases,
)
