"""The lowest bits of q, k or V decide: the leading parts cancel exactly.

A kernel that multiplies in a shorter format (TF32, bfloat16) drops those bits and returns uniform
attention.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Case, Plan
from verify.families import _shapes
from verify.family import Family
from verify.integers import Draws

NAME = "operand_truncation"
# By format: how far below 1 the bits stand that matter.
PLACES = {"fp32": (9, 12, 16), "fp16": (9,)}


def _qkv(axes: Axes, place: int, draws: Draws) -> Arrays:
    """Scores sum (+-1)(1 + bit 2^-place) 2^(place - 1): the ones cancel, the bits remain."""
    bits = draws.integers(0, 2, axes.q)
    q = 1 + np.ldexp(bits.astype(np.float64), -place)
    k = np.ldexp(draws.signs(axes.k), place - 1)
    k[..., axes.d // 2 :] = -k[..., : axes.d // 2]
    v = 1 + np.ldexp(draws.integers(0, 2, axes.v).astype(np.float64), -place)
    return {"q": q, "k": k, "v": v}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for place in PLACES.get(plan.format.name, ()):
            for axes in (_shapes.SQUARE, Axes(5, 67, d=128)):
                yield plan.attention(
                    NAME,
                    f"bit{place}",
                    axes,
                    partial(_qkv, axes, place),
                    smoke=place == 12 and axes.d == 64,
                )


FAMILY = Family(
    name=NAME,
    hypothesis="Operands are converted to TF32, bfloat16 or fp16 before they are multiplied.",
    effect="An fp32 model has 8 or 11 significant bits on some devices.",
    source=(
        "microsoft/onnxruntime (TF32 is on by default in the CUDA provider); PyTorch "
        "documentation, Numerical accuracy (allow_tf32); Fasi et al., PeerJ Computer "
        "Science 7:e330, 2021."
    ),
    cases=_cases,
)
