"""A bias of order 4 on every score, by head, by distance, and with keys removed by -inf.

It is added after the scale and after the softcap, and is scaled by neither.
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

NAME = "additive_bias"


def _bias(axes: Axes, kind: str, draws: Draws) -> Array:
    if kind == "distance":  # ALiBi: slope 2^-h times the distance
        distance = np.arange(axes.n_q)[:, None] + axes.n_k - axes.n_q - np.arange(axes.n_k)
        slope = np.ldexp(1.0, -np.arange(axes.heads))[None, :, None, None]
        return np.asarray(-slope * np.abs(distance), np.float64)
    bias = 4 * draws.normal(axes.scores if kind != "shared" else (1, 1, axes.n_q, axes.n_k))
    if kind == "removes":
        bias[..., 1::3] = -np.inf
    return bias


def _qkv(axes: Axes, kind: str, draws: Draws) -> Arrays:
    return {**normal_qkv(axes, draws), "bias": _bias(axes, kind, draws)}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention":
        return
    for kind in ("full", "shared", "distance", "removes"):
        if kind == "removes" and plan.format.specials != "ieee":
            continue
        for axes in (_shapes.SQUARE, Axes(5, 37, d=40, batch=2, heads=3)):
            smoke = kind == "full" and axes.n_q == 5
            recipe = partial(_qkv, axes, kind)
            extensive = axes.n_q == 64 and kind != "full"
            yield plan.attention(
                NAME, kind, axes, recipe, extras=("bias",), smoke=smoke, extensive=extensive
            )


FAMILY = Family(
    name=NAME,
    hypothesis="The bias is multiplied by the scale, capped, added twice or broadcast wrongly.",
    effect="Position information is lost or distorted.",
    source=(
        "Press, Smith, Lewis: Train short, test long (ALiBi), arXiv 2108.12409, 2021; "
        "ONNX Attention operator, version 24 errata (order of softcap and mask)."
    ),
    cases=_cases,
)
