"""One more score per row without a value: it takes probability and gives nothing.

It must join the maximum, the row sum and the LSE; a sink far above all scores empties the row
without overflow.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families._values import with_ones
from verify.family import Family
from verify.integers import Draws
from verify.operation import Operation

NAME = "sinks"
LEVELS = {"ordinary": 0.0, "dominant": 20.0, "overflowing": 150.0, "negligible": -150.0}


def _qkv(axes: Axes, sink: float, level: float, masked: bool, draws: Draws) -> Arrays:
    q, k = draws.normal(axes.q), draws.normal(axes.k)
    q[..., 0], k[..., 0] = 16.0, level / 2
    inputs: dict[str, Array] = {"q": q, "k": k, "v": with_ones(draws, axes)}
    inputs["sinks"] = sink + draws.normal((axes.heads,))
    if masked:
        mask = draws.integers(0, 2, axes.scores) == 1
        mask[..., ::3, :] = False
        inputs["mask"] = np.asarray(mask)
    return inputs


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention":
        return
    for name, sink in LEVELS.items():
        axes = Axes(16, 32, heads=2) if name == "ordinary" else Axes(5, 37, heads=3)
        recipe = partial(_qkv, axes, sink, 0.0, False)
        yield plan.attention(NAME, name, axes, recipe, extras=("sinks",), smoke=name == "ordinary")
    for name, axes, operation in (
        ("grouped", Axes(5, 37, heads=6, kv_heads=2), Operation("attention")),
        ("window", Axes(33, 37, heads=2), Operation("attention", causal=True, window=(5, 0))),
    ):
        recipe = partial(_qkv, axes, 0.0, 0.0, False)
        yield plan.attention(NAME, name, axes, recipe, operation=operation, extras=("sinks",))
    axes = Axes(5, 37, heads=3)
    recipe = partial(_qkv, axes, 0.0, -200.0, False)
    yield plan.attention(NAME, "negative-scores", axes, recipe, extras=("sinks",))
    recipe = partial(_qkv, axes, 0.0, 0.0, True)
    yield plan.attention(NAME, "empty-rows", axes, recipe, extras=("sinks", "mask"))


FAMILY = Family(
    name=NAME,
    hypothesis="The sink is left out of the maximum, of the LSE, of rows without keys or of a "
    "window, or is read by kv head.",
    effect=("Models with attention sinks overflow, or normalise as if the sink were not there."),
    source=(
        "Xiao et al.: Efficient streaming language models with attention sinks, arXiv "
        "2309.17453, 2023; OpenAI gpt-oss model card, 2025."
    ),
    cases=_cases,
)
