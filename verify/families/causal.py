"""Causal attention with n_q below, at and above n_k; the diagonal ends in the last corner.

Each query sees one key more than the one before: the mask changes inside every block, and with
n_q > n_k the first queries see none.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Arrays, Axes, Case, Plan
from verify.families._values import with_ones
from verify.family import Family
from verify.integers import Draws
from verify.operation import Operation

NAME = "causal"
SHAPES = (
    Axes(64, 64),
    Axes(16, 16, d=16, batch=2, heads=2),
    Axes(1, 16),
    Axes(5, 37),
    Axes(37, 5),
    Axes(33, 129, d=40),
    Axes(64, 16),
    Axes(8, 512),
    Axes(65, 65, heads=2),
)


def _qkv(axes: Axes, offset: float, draws: Draws) -> Arrays:
    q, k = draws.normal(axes.q), draws.normal(axes.k)
    if offset:
        q[..., 0], k[..., 0] = 16.0, offset
    return {"q": q, "k": k, "v": with_ones(draws, axes)}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention":
        return
    operation = Operation("attention", causal=True)
    for axes in SHAPES:
        for name, offset in (("", 0.0), ("negative", -60.0))[: 2 if axes.n_q == 65 else 1]:
            yield plan.attention(
                NAME,
                name,
                axes,
                partial(_qkv, axes, offset),
                operation=operation,
                smoke=axes.n_q == 5 or (axes.n_q == 65 and offset != 0),
            )


FAMILY = Family(
    name=NAME,
    hypothesis="The causal diagonal starts in the wrong corner or is off by one, or a block on it "
    "is masked too much.",
    effect="Tokens see the future, or not their own past; with a key cache every output is wrong.",
    source=(
        "pytorch/pytorch issue 103082 (which corner, with a key cache); FlashAttention 2.1 change "
        "log (aligned to the bottom right); ml-explore/mlx pull request 2836."
    ),
    cases=_cases,
)
