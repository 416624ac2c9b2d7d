"""A mask, bias or sinks that are expanded, sliced or transposed views hold the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from verify.case import Arrays, Axes
from verify.certificate import Record
from verify.integers import Draws
from verify.kernel import Kernel
from verify.pipeline import examine
from verify.properties import Property, Trial, as_property

NAME = "extra_layouts"
AXES = Axes(32, 32, d=64, batch=2, heads=2)
LAYOUTS = {
    "mask": ("expanded", "transposed", "sliced", "offset"),
    "bias": ("expanded", "transposed", "sliced", "offset"),
    "sinks": ("sliced",),
}


def _refusal(kernel: Kernel) -> str | None:
    if kernel.operation != "attention" or not kernel.features & set(LAYOUTS):
        return "claims no mask, bias or sinks"
    if "strides" in kernel.declaration.without:
        return "declares that it takes contiguous inputs only"
    return None


def _recipe(extra: str, layout: str, draws: Draws) -> Arrays:
    """An extra whose neighbours in memory matter; equal for all heads where it is expanded."""
    heads = 1 if layout == "expanded" else AXES.heads
    shape = (AXES.batch, heads, AXES.n_q, AXES.n_k)
    inputs = {"q": draws.normal(AXES.q), "k": draws.normal(AXES.k), "v": draws.normal(AXES.v)}
    if extra == "sinks":
        return {**inputs, "sinks": 2 + draws.normal((AXES.heads,))}
    if extra == "bias":
        return {**inputs, "bias": np.broadcast_to(2 * draws.normal(shape), AXES.scores)}
    mask = draws.integers(0, 2, shape) == 1
    mask[..., 0] = True
    return {**inputs, "mask": np.broadcast_to(mask, AXES.scores)}


def _records(trial: Trial) -> Iterator[Record]:
    for extra, layouts in LAYOUTS.items():
        for layout in layouts if extra in trial.kernel.features else ():
            bench = replace(trial.bench, layout=f"extras-{layout}", grading=False)
            recipe = partial(_recipe, extra, layout)
            name = f"{extra}-{layout}"
            case = trial.plan.attention("properties", name, AXES, recipe, extras=(extra,))
            record = examine(case, trial.kernel, bench)
            yield as_property(record, NAME, name, trial.format)


PROPERTY = Property(
    name=NAME,
    hypothesis="A mask or bias is walked as if it were dense, or its broadcast axis as if filled.",
    effect="A mask that is shared by all heads, as most are, hides other keys than it says.",
    source="Dao-AILab/flash-attention issues on strides; faults seen with expanded masks.",
    refusal=_refusal,
    records=_records,
)
