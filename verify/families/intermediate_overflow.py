"""Large products of both signs: q . k is near 0 while its partial sums reach 5e5.

Whether an fp16 accumulator overflows depends on the order of its additions.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families._values import with_ones
from verify.family import Family
from verify.integers import Draws

NAME = "intermediate_overflow"


def _sign_pattern(d: int, arrangement: str) -> Array:
    places = np.arange(d)
    plus = places % 2 == 0 if arrangement == "alternating" else places < d // 2
    return np.where(plus, 64.0, -64.0)


def _qkv(axes: Axes, arrangement: str, draws: Draws) -> Arrays:
    k = np.broadcast_to(_sign_pattern(axes.d, arrangement), axes.k) + draws.normal(axes.k) * 0.25
    return {"q": np.full(axes.q, 64.0), "k": k, "v": with_ones(draws, axes)}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for arrangement in ("alternating", "halves"):
            for axes in (Axes(16, 32), Axes(3, 33, d=128)):
                yield plan.attention(NAME, arrangement, axes, partial(_qkv, axes, arrangement))


FAMILY = Family(
    name=NAME,
    hypothesis="The accumulator of Q K^T overflows on the way to a small sum.",
    effect="Rows turn into NaN on one device and not on another, by the order of summation.",
    source=(
        "pytorch/pytorch issue 60939 (the product of q and k overflows in fp16); Fasi et al., "
        "PeerJ Computer Science 7:e330, 2021 (order of addition inside tensor cores)."
    ),
    cases=_cases,
)
