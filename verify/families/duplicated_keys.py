"""Every key and value stands twice, side by side or one copy after the other.

The exact output is that of one copy, and the LSE grows by ln 2: a sum that loses terms, or counts
them twice, breaks this.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families import _shapes
from verify.families._values import normal_qkv
from verify.family import Family
from verify.integers import Draws

NAME = "duplicated_keys"
SHAPES = (_shapes.SQUARE, Axes(6, 262, d=16))


def _qkv(axes: Axes, interleaved: bool, draws: Draws) -> Arrays:
    inputs = dict(normal_qkv(axes, draws))
    half = np.arange(axes.n_k) // 2 if interleaved else np.arange(axes.n_k) % (axes.n_k // 2)
    return inputs | {"k": inputs["k"][..., half, :], "v": inputs["v"][..., half, :]}


def _x(shape: tuple[int, int], draws: Draws) -> Array:
    return np.repeat(4 * draws.normal((shape[0], shape[1] // 2)), 2, axis=1)


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for axes in SHAPES:
            interleaved = axes.n_k == 64
            yield plan.attention(NAME, "", axes, partial(_qkv, axes, interleaved))
        return
    yield plan.rows(NAME, "", (4, 262), partial(_x, (4, 262)))


FAMILY = Family(
    name=NAME,
    hypothesis="Repeated keys are merged, or blocks are counted twice.",
    effect="Repeated tokens get the wrong weight.",
    source=(
        "Metamorphic testing: Chen, Cheung, Yiu, HKUST-CS98-01, 1998; property of the "
        "definition of softmax."
    ),
    cases=_cases,
)
