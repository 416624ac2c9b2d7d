"""Head dimensions whose 1/sqrt(d) no binary format holds, with large scores.

Rounding the scale to 16 bits changes every score by the same relative amount, which at |s| = 30
moves probabilities by several per cent.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Arrays, Axes, Case, Plan
from verify.families._values import normal_qkv
from verify.family import Family
from verify.integers import Draws

NAME = "unrepresentable_scale"
DIMENSIONS = (72, 96, 112, 128, 192)


def _qkv(axes: Axes, draws: Draws) -> Arrays:
    inputs = dict(normal_qkv(axes, draws))
    return inputs | {"q": 8 * inputs["q"]}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for d in DIMENSIONS:
            axes = Axes(16, 48, d=d)
            yield plan.attention(NAME, "", axes, partial(_qkv, axes), smoke=d == 112)


FAMILY = Family(
    name=NAME,
    hypothesis=(
        "The scale is rounded to the input format, or computed from a padded head dimension."
    ),
    effect="Sharp rows are blurred or sharpened, with some head dimensions only.",
    source="ml-explore/mlx pull request 3119 (scale cast to bf16).",
    cases=_cases,
)
