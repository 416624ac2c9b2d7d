"""Two products of +-2^F cancel beside many products 1: the score counts the ones.

An accumulator that aligns products to the largest and keeps F bits sees the ones; one that keeps
fewer sees 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Case, Plan
from verify.families._values import with_ones
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws

NAME = "alignment"
KEPT = (7, 10, 13, 20)


def _qkv(fmt: Format, axes: Axes, kept: int, draws: Draws) -> Arrays:
    """q = (2^a, 1, ..., 1, 2^a) and k = (2^b, ones or zeros, -2^b) with a + b = kept."""
    q, k = np.ones(axes.q), draws.integers(0, 2, axes.k).astype(np.float64)
    left = kept // 2
    q[..., 0] = q[..., -1] = np.ldexp(1.0, left)
    k[..., 0] = np.ldexp(1.0, kept - left)
    k[..., -1] = -k[..., 0]
    return {"q": q, "k": k, "v": with_ones(draws, axes)}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for kept in KEPT:
            axes = Axes(4, 48) if kept != 13 else Axes(16, 48)
            recipe = partial(_qkv, plan.format, axes, kept)
            yield plan.attention(NAME, f"F{kept}", axes, recipe, notes={"F": float(kept)})


FAMILY = Family(
    name=NAME,
    hypothesis="Products are aligned and truncated to fewer bits than declared.",
    effect="Outlier channels erase the rest of the dot product.",
    source=(
        "Fasi, Higham, Mikaitis, Pranesh, PeerJ Computer Science 7:e330, 2021, section "
        "3; Khattak, Mikaitis, arXiv 2512.07004 (alignment bits)."
    ),
    cases=_cases,
)
