"""The first or the last keys of every row are masked, in whole blocks and in parts of one.

A block without any key leaves the maximum at -inf; exp(-inf - (-inf)) is NaN unless it is guarded,
and a maximum that was set to 0 there wins rows of negative scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Case, Plan
from verify.families._exact_scores import Integers
from verify.families._values import with_ones
from verify.family import Family
from verify.integers import Draws

NAME = "first_block_masked"
MASKED = (16, 64, 129)


def _visible(n: int, side: str, masked: int) -> Integers:
    places = np.arange(n) if side == "left" else np.arange(n)[::-1]
    return np.asarray(places, np.int64) - masked


def _qkv(axes: Axes, side: str, masked: int, level: float, as_bias: bool, draws: Draws) -> Arrays:
    q, k = draws.normal(axes.q), draws.normal(axes.k)
    q[..., 0], k[..., 0] = 16.0, level / 2
    hidden = np.broadcast_to(_visible(axes.n_k, side, masked), axes.scores) < 0
    # Rows differ by a few keys, so that no row hides the block for its neighbours.
    hidden = hidden & (draws.integers(0, 16, axes.scores[:-1])[..., None] != 3)
    inputs = {"q": q, "k": k, "v": with_ones(draws, axes)}
    if as_bias:
        return inputs | {"bias": np.where(hidden, -np.inf, 0.0)}
    return inputs | {"mask": ~hidden}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention":
        return
    axes = Axes(16, 256)
    for side in ("left", "right"):
        for masked in MASKED:
            for level in (0.0, -200.0) if masked == 64 else (-200.0,):
                yield plan.attention(
                    NAME,
                    f"{side}{masked}-S{level:.0f}",
                    axes,
                    partial(_qkv, axes, side, masked, level, False),
                    extras=("mask",),
                    smoke=masked == 129 and side == "left",
                    extensive=masked == 64 and side == "right",
                )
        recipe = partial(_qkv, axes, side, 64, -200.0, True)
        if plan.format.specials == "ieee":
            extensive = side == "right"
            yield plan.attention(
                NAME, f"{side}64-bias", axes, recipe, extras=("bias",), extensive=extensive
            )


FAMILY = Family(
    name=NAME,
    hypothesis="A fully masked block leaves a NaN, or 0 as the running maximum.",
    effect=("Left-padded batches, the usual layout for generation, give NaN or the mean of V."),
    source=(
        "pytorch/pytorch issue 103963 and pull request 131060; flashinfer-ai/flashinfer issue 4450."
    ),
    cases=_cases,
)
