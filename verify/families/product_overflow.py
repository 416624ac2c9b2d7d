"""q . k lies above 65504 while scale times q . k is of order ten.

Only the place of the scale matters: before the product, or in binary32, nothing overflows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Arrays, Axes, Case, Plan
from verify.families._values import with_ones
from verify.family import Family
from verify.integers import Draws
from verify.operation import Operation

NAME = "product_overflow"
SCALE = 2.0**-13
SHAPES = (Axes(16, 64), Axes(6, 77, d=40, d_v=24))


def _qkv(axes: Axes, draws: Draws) -> Arrays:
    """q . k near 2^17, that is a score near 16."""
    size = 64 * 32 // axes.d
    q = 64 + 8 * draws.normal(axes.q)
    k = size + 4 * draws.normal(axes.k)
    return {"q": q, "k": k, "v": with_ones(draws, axes)}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        operation = Operation("attention", scale=SCALE)
        for axes in SHAPES:
            yield plan.attention(NAME, "", axes, partial(_qkv, axes), operation=operation)


FAMILY = Family(
    name=NAME,
    hypothesis="The unscaled product is stored in fp16 before it is scaled.",
    effect="fp16 models overflow where the scores themselves are small.",
    source=(
        "microsoft/onnxruntime issue 28195 (raw scores in fp16); ONNX Attention operator (square "
        "root of the scale on both operands, to prevent it)."
    ),
    cases=_cases,
)
