"""Two calls that differ in exactly one of scale, mask, shape or values, then the first again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Case
from verify.certificate import Record
from verify.families._values import normal_qkv
from verify.integers import Draws
from verify.operation import Operation
from verify.pipeline import examine
from verify.properties import Property, Trial, always, as_property, small_case

NAME = "changed_attribute"
AXES = Axes(48, 48, d=64, batch=2, heads=3)


def _masked(draws: Draws) -> Arrays:
    mask = draws.integers(0, 2, AXES.scores).astype(np.bool_)
    mask[..., 0] = True
    return {**normal_qkv(AXES, draws), "mask": mask}


def _others(trial: Trial) -> Iterator[tuple[str, Case]]:
    """The calls in between, by the attribute in which each differs from the first."""
    plan, features = trial.plan, trial.kernel.features
    yield "values", small_case(trial, "other-values")
    yield "shape", small_case(trial, "other-shape", shift=1)
    if trial.kernel.operation != "attention":
        return
    plain = partial(normal_qkv, AXES)
    always_causal = "causal" in trial.kernel.declaration.requires
    for name, need, operation in (
        ("scale", "scale", Operation("attention", scale=0.375)),
        ("causal", "causal", Operation("attention", causal=True)),
        ("softcap", "softcap", Operation("attention", softcap=2.0)),
    ):
        if need in features:
            operation = replace(operation, causal=operation.causal or always_causal)
            yield name, plan.attention("properties", "first", AXES, plain, operation=operation)
    if "mask" in features:
        yield "mask", plan.attention("properties", "mask", AXES, _masked, extras=("mask",))


def _records(trial: Trial) -> Iterator[Record]:
    first = small_case(trial, "first")
    bench = replace(trial.bench, grading=False)
    for name, other in _others(trial):
        for place, case in enumerate((first, other, first)):
            record = examine(case, trial.kernel, bench)
            yield as_property(record, NAME, f"{name}-{'ABA'[place]}{place}", trial.format)


PROPERTY = Property(
    name=NAME,
    hypothesis="A plan, cache or buffer of an earlier call is used again for another one.",
    effect="Results depend on what was computed before: right in tests, wrong in a server.",
    source="Caches keyed by shape, pointer or a few elements in kernels written for benchmarks.",
    refusal=always,
    records=_records,
)
