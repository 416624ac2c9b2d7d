"""V so small that products and outputs are subnormal numbers of the input format.

Relative accuracy ends there: what is left is half of the smallest subnormal, or nothing if the
kernel flushes to zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Case, Plan
from verify.families import _shapes
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws

NAME = "tiny_v"
SIZES = {"edge": 0, "deep": -5}  # log2 of V over the smallest normal number


def _qkv(fmt: Format, axes: Axes, size: int, draws: Draws) -> Arrays:
    v = draws.normal(axes.v) * np.ldexp(1.0, fmt.emin + size)
    return {"q": draws.normal(axes.q), "k": draws.normal(axes.k), "v": v}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for name, size in SIZES.items():
            for axes in (_shapes.SQUARE, Axes(3, 131, d=16)):
                recipe = partial(_qkv, plan.format, axes, size)
                extensive = name == "edge" and axes.n_q == 3
                yield plan.attention(NAME, name, axes, recipe, extensive=extensive)


FAMILY = Family(
    name=NAME,
    hypothesis=(
        "Subnormal values, products or outputs are flushed to zero without being declared."
    ),
    effect="Small signals vanish entirely on some devices.",
    source=(
        "Fasi, Higham, Mikaitis, Pranesh: Numerical behavior of NVIDIA tensor cores, "
        "PeerJ Computer Science 7:e330, 2021 (subnormals are supported)."
    ),
    cases=_cases,
)
