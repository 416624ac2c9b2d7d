"""Each coordinate of q and k has its own power of two between 2^-6 and 2^6.

Products of one sum then span 24 binary orders: an accumulator that aligns them to the largest
shifts the small ones out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families import _shapes
from verify.family import Family
from verify.integers import Draws

NAME = "wide_exponents"


def _powers(draws: Draws, n: int) -> Array:
    return np.ldexp(1.0, draws.integers(-6, 7, (n,)))


def _qkv(axes: Axes, draws: Draws) -> Arrays:
    q = draws.normal(axes.q) * _powers(draws, axes.d)
    k = draws.normal(axes.k) * _powers(draws, axes.d) * 2.0**-7
    v = draws.normal(axes.v) * _powers(draws, axes.n_k)[:, None]
    return {"q": q, "k": k, "v": v}


def _x(shape: tuple[int, int], draws: Draws) -> Array:
    return draws.normal(shape) * _powers(draws, shape[1])


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for axes in (_shapes.SQUARE, Axes(6, 131, d=128)):
            yield plan.attention(NAME, "", axes, partial(_qkv, axes))
        return
    yield plan.rows(NAME, "", (6, 131), partial(_x, (6, 131)))


FAMILY = Family(
    name=NAME,
    hypothesis="Products are truncated when they are aligned, by more bits than declared.",
    effect="Outlier channels, which real models have, drown the others.",
    source=(
        "Dettmers et al.: LLM.int8(), arXiv 2208.07339, 2022 (outlier features); arXiv "
        "2511.10909 (MMA-Sim, alignment of products)."
    ),
    cases=_cases,
)
