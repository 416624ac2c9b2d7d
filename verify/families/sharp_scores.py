"""Queries eight times larger than usual: a few keys hold almost all probability.

With few terms in each sum nothing averages out, so errors come close to their bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families import _shapes
from verify.families._values import normal_qkv
from verify.family import Family
from verify.integers import Draws

NAME = "sharp_scores"
FACTORS = (4, 8)
SHAPES = (_shapes.SQUARE, Axes(9, 131, d=16))


def _qkv(axes: Axes, factor: int, draws: Draws) -> Arrays:
    inputs = dict(normal_qkv(axes, draws))
    return inputs | {"q": factor * inputs["q"]}


def _x(shape: tuple[int, int], factor: int, draws: Draws) -> Array:
    return factor * draws.normal(shape)


def _cases(plan: Plan) -> Iterator[Case]:
    for factor in FACTORS:
        if plan.operation == "attention":
            for axes in SHAPES:
                yield plan.attention(NAME, f"x{factor}", axes, partial(_qkv, axes, factor))
        else:
            shape = (8, 131 if factor == 4 else 512)
            yield plan.rows(NAME, f"x{factor}", shape, partial(_x, shape, factor))


FAMILY = Family(
    name=NAME,
    hypothesis="Errors of the exponential or of P are larger than declared, hidden on flat rows.",
    effect="Sharp heads, which copy or retrieve, return blurred values.",
    source="Dao-AILab/flash-attention issue 1052 (NaN only with inputs times 3); "
    "pytorch-labs/attention-gym issue 131 (bf16 error at scale 10).",
    cases=_cases,
)
