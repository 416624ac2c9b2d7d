"""One of q and k is subnormal and the other huge, so the scores are of order 1.

Hardware that reads subnormals as zero makes all scores equal; aligned multipliers lose bits of the
unnormalised operand.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families import _shapes
from verify.families._values import with_ones
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws

NAME = "subnormal_inputs"


def _pair(fmt: Format, axes: Axes, draws: Draws) -> tuple[Array, Array]:
    small = draws.normal(axes.q) * np.ldexp(1.0, fmt.emin - 1)
    large = draws.normal(axes.k) * np.ldexp(1.0, fmt.emax - 2)
    return small, large


def _qkv(fmt: Format, axes: Axes, which: str, draws: Draws) -> Arrays:
    v = with_ones(draws, axes)
    if which == "q":
        q, k = _pair(fmt, axes, draws)
    else:
        flipped = Axes(axes.n_k, axes.n_q, axes.d, axes.batch, axes.heads)
        k, q = _pair(fmt, flipped, draws)
    return {"q": q, "k": k, "v": v}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for which in ("q", "k"):
            for axes in (_shapes.SQUARE, Axes(3, 67, d=16)):
                recipe = partial(_qkv, plan.format, axes, which)
                extensive = which == "q" and axes.n_q == 3
                yield plan.attention(NAME, which, axes, recipe, extensive=extensive)


FAMILY = Family(
    name=NAME,
    hypothesis="Subnormal inputs are read as zero, or lose bits when products are aligned.",
    effect="Queries or keys of small norm attend uniformly, on some processors only.",
    source=(
        "Fasi, Higham, Mikaitis, Pranesh, PeerJ Computer Science 7:e330, 2021; Intel "
        "AMX and AVX512-BF16 manuals (denormals are zero)."
    ),
    cases=_cases,
)
