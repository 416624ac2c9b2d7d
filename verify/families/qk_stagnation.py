"""Keys of equal exact score: one large product and many ones, or a single product of the same sum.

A score accumulator in the input format drops the ones, and the keys are no longer equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Case, Plan
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws

NAME = "qk_stagnation"
LARGEST = 2.0**11  # in binary32, what a 16-bit accumulator loses and its own keeps
SHAPES = (Axes(16, 48), Axes(2, 2), Axes(5, 131, d=128))


def _keys(fmt: Format, d: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Three keys with k . (1, ..., 1) = total: large entry first, large entry last, one entry."""
    big = min(1 / fmt.u, LARGEST)
    total = float(fmt.round(np.array([big + d - 1]))[0])
    first = np.ones(d)
    first[0], first[-1] = big, 1 + total - (big + d - 1)
    single = np.zeros(d)
    single[0] = total
    return np.stack([first, single, first[::-1]])


def _qkv(fmt: Format, axes: Axes, draws: Draws) -> Arrays:
    kind = np.arange(axes.n_k) % 3
    q = np.broadcast_to(np.ldexp(1.0, -(np.arange(axes.n_q) % 4))[:, None], axes.q)
    k = np.broadcast_to(_keys(fmt, axes.d)[kind], axes.k)
    v = np.broadcast_to(np.array([1.0, -1.0, 0.5])[kind][:, None], axes.v)
    return {"q": q, "k": k, "v": v}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for axes in SHAPES:
            recipe = partial(_qkv, plan.format, axes)
            yield plan.attention(NAME, "", axes, recipe, smoke=axes.n_q == 16)


FAMILY = Family(
    name=NAME,
    hypothesis="Q K^T is accumulated in the input format.",
    effect="Keys that match a query through many small components lose to keys that match through "
    "one.",
    source="Li et al.: Design, implementation and testing of extended and mixed precision BLAS, "
    "ACM TOMS 28(2), 2002 (inputs that reveal the internal precision of a dot product).",
    cases=_cases,
    seeds=1,
)
