"""Boolean masks of every broadcast shape: half of the keys, a checkerboard, one key per row.

True means attend. Added as 0 and 1, inverted, or broadcast along the wrong axis, such a mask
changes nearly every row.
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
from verify.operation import Operation

NAME = "boolean_masks"


def _mask(axes: Axes, kind: str, draws: Draws) -> Array:
    if kind == "keys":  # one padding pattern per batch entry
        lengths = draws.integers(1, axes.n_k + 1, (axes.batch, 1, 1, 1))
        return np.asarray(np.arange(axes.n_k) < lengths)
    if kind == "heads":
        return np.asarray(draws.integers(0, 4, (1, axes.heads, axes.n_q, axes.n_k)) > 0)
    if kind == "checkerboard":
        return np.asarray((np.arange(axes.n_q)[:, None] + np.arange(axes.n_k)) % 2 == 0)[None, None]
    if kind == "one-key":
        place = draws.integers(0, axes.n_k, axes.scores[:-1])
        return np.asarray(np.arange(axes.n_k) == place[..., None])
    half = draws.integers(0, 2, axes.scores) == 1
    half[..., 0] = True
    return np.asarray(half)


def _qkv(axes: Axes, kind: str, draws: Draws) -> Arrays:
    return {**normal_qkv(axes, draws), "mask": _mask(axes, kind, draws)}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention":
        return
    shapes = {
        "half": (_shapes.SQUARE, Axes(7, 131, d=16, heads=2)),
        "keys": (Axes(16, 32, batch=3), Axes(3, 37, batch=4, heads=2)),
        "heads": (Axes(8, 48, batch=2, heads=3),),
        "checkerboard": (Axes(16, 48),),
        "one-key": (Axes(16, 64),),
    }
    for kind, axes_list in shapes.items():
        for axes in axes_list:
            recipe = partial(_qkv, axes, kind)
            smoke = kind == "half" and axes.n_q == 7
            yield plan.attention(NAME, kind, axes, recipe, extras=("mask",), smoke=smoke)
            if smoke:
                causal = Operation("attention", causal=True)
                yield plan.attention(
                    NAME, "half-causal", axes, recipe, operation=causal, extras=("mask",)
                )


FAMILY = Family(
    name=NAME,
    hypothesis=(
        "The mask is inverted, added instead of applied, read with a wrong type or "
        "broadcast wrongly."
    ),
    effect="Padding attends and text does not.",
    source="pytorch/pytorch pull request 191612 (mask read with the wrong type).",
    cases=_cases,
)
