"""All of q, k and V are positive: sums grow steadily and never cancel.

Rounding toward zero then drifts by the same amount in every addition, and an error that is random
elsewhere becomes proportional to the length.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Arrays, Axes, Case, Plan
from verify.families import _shapes
from verify.family import Family
from verify.integers import Draws

NAME = "one_signed_products"
SHAPES = (_shapes.SQUARE, Axes(5, 67, d=1024), Axes(4, 4096, d=16), Axes(16, 513, d=128))


def _qkv(axes: Axes, draws: Draws) -> Arrays:
    q, k = 0.5 + draws.uniform(axes.q), 0.5 + draws.uniform(axes.k)
    return {"q": q, "k": k, "v": 1 + draws.uniform(axes.v)}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for axes in SHAPES:
            yield plan.attention(NAME, "", axes, partial(_qkv, axes))
        axes = Axes(4, 16384, d=16)
        yield plan.attention(NAME, "", axes, partial(_qkv, axes), extensive=True)


FAMILY = Family(
    name=NAME,
    hypothesis="Accumulators truncate, or hold fewer bits than declared.",
    effect=("Errors grow linearly with the context, so long contexts fail where short ones pass."),
    source=(
        "DeepSeek-V3 technical report, arXiv 2412.19437, section 3.3.2 (14-bit "
        "accumulation of FP8 products); Fasi et al., PeerJ Computer Science 7:e330, "
        "2021 (truncation)."
    ),
    cases=_cases,
)
