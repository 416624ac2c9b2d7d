"""Fewer kv heads than heads, and values that name their kv head.

Head h reads kv head h // (heads / kv_heads); read as h mod kv_heads, or interleaved, the output
names the wrong one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Case, Plan
from verify.families._values import normal_qkv
from verify.family import Family
from verify.integers import Draws
from verify.operation import Operation

NAME = "grouped_heads"
SHAPES = (
    Axes(16, 16, d=16, heads=6, kv_heads=2),
    Axes(4, 33, heads=8, kv_heads=1),
    Axes(7, 19, d=40, batch=2, heads=4, kv_heads=2),
    Axes(1, 64, heads=15, kv_heads=5, d_v=24),
    Axes(2, 9, heads=64, kv_heads=8),  # as in models of 70e9 parameters
)


def _qkv(axes: Axes, named: bool, draws: Draws) -> Arrays:
    inputs = dict(normal_qkv(axes, draws))
    if named:
        names = 1.0 + np.arange(axes.batch * axes.kv_heads).reshape(axes.batch, axes.kv_heads, 1, 1)
        inputs["v"] = np.broadcast_to(names, axes.v)
    return inputs


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention":
        return
    for axes in SHAPES:
        for named in (True, False) if axes.heads == 6 else (False,):
            name = "named" if named else "normal"
            smoke = named and axes.heads == 6
            yield plan.attention(NAME, name, axes, partial(_qkv, axes, named), smoke=smoke)
    axes = SHAPES[2]
    causal = Operation("attention", causal=True)
    yield plan.attention(NAME, "causal", axes, partial(_qkv, axes, False), operation=causal)


FAMILY = Family(
    name=NAME,
    hypothesis="Heads are mapped to kv heads in the wrong order.",
    effect="Grouped-query models produce fluent nonsense.",
    source=(
        "Ainslie et al.: GQA, arXiv 2305.13245, 2023; ONNX Attention operator (grouped heads)."
    ),
    cases=_cases,
)
