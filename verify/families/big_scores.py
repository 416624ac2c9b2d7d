"""Random scores in the hundreds: large sums of products, one winner per row.

The rounding of a score is no longer small beside 1, so it moves probabilities by whole factors.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families import _shapes
from verify.families._values import normal_qkv
from verify.family import Family
from verify.integers import Draws

NAME = "big_scores"
SHAPES = (_shapes.SQUARE, Axes(5, 131, d=80))


def _qkv(axes: Axes, draws: Draws) -> Arrays:
    inputs = dict(normal_qkv(axes, draws))
    return inputs | {"q": (16 if axes.d == 64 else 4) * inputs["q"], "k": 8 * inputs["k"]}


def _x(shape: tuple[int, int], draws: Draws) -> Array:
    return 128 * draws.normal(shape)


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for axes in SHAPES:
            yield plan.attention(NAME, "", axes, partial(_qkv, axes))
        return
    for shape in ((8, 64), (5, 1000)):
        yield plan.rows(NAME, "", shape, partial(_x, shape))


FAMILY = Family(
    name=NAME,
    hypothesis="Scores overflow, or are kept in fewer bits than declared.",
    effect="Attention picks a wrong key where query and key norms have grown.",
    source="Dehghani et al.: Scaling vision transformers to 22 billion parameters, 2023, "
    "arXiv 2302.05442 (attention logits beyond 50000 without normalisation).",
    cases=_cases,
)
