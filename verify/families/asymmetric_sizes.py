"""All axis sizes differ from each other and none is a multiple of a tile.

Two axes that are confused, or a stride that is taken from the wrong one, cannot cancel out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Case, Plan
from verify.families import _shapes
from verify.families._values import normal_qkv
from verify.family import Family
from verify.integers import Draws
from verify.operation import Operation

NAME = "asymmetric_sizes"
OTHER = Axes(11, 53, d=72, batch=3, heads=4, kv_heads=2, d_v=80)
OPTIONS: dict[str, tuple[Operation, tuple[str, ...]]] = {
    "plain": (Operation("attention"), ()),
    "scale": (Operation("attention", scale=0.3), ()),
    "causal": (Operation("attention", causal=True), ()),
    "mask": (Operation("attention"), ("mask",)),
    "bias": (Operation("attention"), ("bias",)),
    "window": (Operation("attention", window=(3, 2)), ()),
    "all": (Operation("attention", 0.3, True, window=(9, 0), softcap=30.0), ("mask", "bias")),
}


def _qkv(axes: Axes, extras: tuple[str, ...], draws: Draws) -> Arrays:
    inputs = dict(normal_qkv(axes, draws))
    if "mask" in extras:
        inputs["mask"] = np.asarray(draws.integers(0, 4, axes.scores) > 0)
    if "bias" in extras:
        inputs["bias"] = draws.normal(axes.scores)
    return inputs


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention":
        return
    for name, (operation, extras) in OPTIONS.items():
        for axes in (_shapes.ASYMMETRIC, OTHER) if name in ("plain", "all") else (OTHER,):
            yield plan.attention(
                NAME,
                name,
                axes,
                partial(_qkv, axes, extras),
                operation=operation,
                extras=extras,
                smoke=name == "all" and axes is OTHER,
                extensive=name in ("scale", "bias"),
            )


FAMILY = Family(
    name=NAME,
    hypothesis="Axes, strides or head groups are confused where tests use equal sizes.",
    effect="Any model whose sizes are not the benchmark's is wrong.",
    source=(
        "pytorch/pytorch issue 124877 (NaN when queries and keys differ in length); "
        "ggml-org/llama.cpp pull request 20031 (48 heads, d not a multiple of 16)."
    ),
    cases=_cases,
)
