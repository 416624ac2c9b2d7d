"""Inputs that must give the same output, or one that is shifted: two calls, two bounds.

Keys permuted with their values; every key and query twice; a constant added to all scores (the
log-sum-exp shifts by it); a constant added to V (the output shifts by it).  The difference of the
two outputs is at most the sum of the two bounds, and each call answers to its own besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verify.case import Arrays, Axes, Case, Plan
from verify.certificate import Record
from verify.integers import Draws
from verify.judge import Verdict
from verify.kernel import Kernel
from verify.limits import bound_of, lse_limits, output_limits
from verify.properties import Property, Trial, as_property, heard

NAME = "equivalent_inputs"
AXES = Axes(32, 32, d=64, heads=2)
HALF = Axes(16, 16, d=64, heads=2)
V_SHIFT = 8.0  # V is a multiple of 1/8 below 4, so that the shifted V is exact in every format
SCORE_SHIFT = 40.0
Array = NDArray[np.float64]


def _base(plan: Plan, axes: Axes, _: Draws) -> Arrays:
    """The same q, k, v in every call that is compared."""
    draws = plan.draws(NAME, axes.label)
    v = draws.integers(-32, 32, axes.v) / 8.0
    return {"q": draws.normal(axes.q), "k": draws.normal(axes.k), "v": v}


def _permuted(plan: Plan, draws: Draws) -> Arrays:
    base = _base(plan, AXES, draws)
    order = np.argsort(draws.normal((AXES.n_k,)))
    return {"q": base["q"], "k": base["k"][..., order, :], "v": base["v"][..., order, :]}


def _twice(plan: Plan, draws: Draws) -> Arrays:
    return {n: np.concatenate([a, a], axis=2) for n, a in _base(plan, HALF, draws).items()}


def _shifted_v(plan: Plan, draws: Draws) -> Arrays:
    base = _base(plan, AXES, draws)
    return {**base, "v": base["v"] + V_SHIFT}


def _shifted_scores(plan: Plan, draws: Draws) -> Arrays:
    return {**_base(plan, AXES, draws), "bias": np.full(AXES.scores, SCORE_SHIFT)}


@dataclass(frozen=True)
class Relation:
    """How a second call follows from the first: O_2 = O_1 + output, LSE_2 = LSE_1 + lse.

    copies   how often the queries of the first call stand in the second
    """

    recipe: Callable[[Plan, Draws], Arrays]
    first: Axes = AXES
    copies: int = 1
    output: float = 0.0
    lse: float = 0.0
    extras: tuple[str, ...] = ()


RELATIONS = {
    "permuted": Relation(_permuted),
    "twice": Relation(_twice, first=HALF, copies=2, lse=float(np.log(2))),
    "shifted-v": Relation(_shifted_v, output=V_SHIFT),
    "shifted-scores": Relation(_shifted_scores, lse=SCORE_SHIFT, extras=("bias",)),
}


def _refusal(kernel: Kernel) -> str | None:
    return None if kernel.operation == "attention" else "its operation has no keys"


def _records(trial: Trial) -> Iterator[Record]:
    firsts: dict[Axes, Any] = {}
    for name, relation in RELATIONS.items():
        axes = relation.first
        one = trial.plan.attention("properties", "first", axes, partial(_base, trial.plan, axes))
        recipe = partial(relation.recipe, trial.plan)
        two = trial.plan.attention("properties", name, AXES, recipe, extras=relation.extras)
        if any(trial.kernel.out_of_scope(case) is not None for case in (one, two)):
            continue
        if axes not in firsts:
            record, firsts[axes] = _call(one, trial)
            yield as_property(record, NAME, one.name, trial.format)
        record, numbers = _call(two, trial)
        if numbers is not None and firsts[axes] is not None:
            record = _judged(record, firsts[axes], numbers, relation)
        yield as_property(record, NAME, two.name, trial.format)


Numbers = list[tuple[Array, Array]]


def _call(case: Case, trial: Trial) -> tuple[Record, Numbers | None]:
    """A record, and (value, bound) of output and natural log-sum-exp; None where it failed."""
    record, answer = heard(case, trial)
    if answer is None or record.verdict not in (Verdict.PASS, Verdict.FAIL):
        return record, None
    inputs = case.build()
    operation = trial.kernel.resolve(case.operation, AXES.d)
    truth = trial.bench.oracle.truth(operation, inputs, trial.kernel.declaration)
    limit = bound_of(operation, inputs, trial.kernel.models(trial.format), trial.bench)
    limits = [output_limits(limit, truth, shifted=True)]
    values = [answer.outputs[0].values]
    if len(answer.outputs) > 1 and trial.kernel.declaration.lse_base == "e":
        limits.append(lse_limits(limit, truth, trial.kernel, shifted=True))
        values.append(answer.outputs[1].values)
    bounds = [np.where(m.flagged | m.ignored, np.inf, m.bound) for m in limits]
    return record, list(zip(values, bounds, strict=True))


def _judged(record: Record, first: Numbers, second: Numbers, relation: Relation) -> Record:
    """The record of the second call, refuted where the two contradict each other.

    Requires    the shifts and the rounding of float64 cost less than 2^-40 of the sizes.
    """
    shifts = (relation.output, relation.lse)
    for name, (a, b), (c, d), shift in zip(
        ("output", "log-sum-exp"), first, second, shifts, strict=False
    ):
        a, b = (np.concatenate([x] * relation.copies, axis=2) for x in (a, b))
        with np.errstate(invalid="ignore"):
            apart = np.abs(c - a - shift)
            room = (b + d) * (1 + 2.0**-40) + 2.0**-48 * (np.abs(a) + np.abs(c) + abs(shift))
        wrong = np.isfinite(a) & np.isfinite(c) & (apart > room)
        if wrong.any():
            told = f"{int(wrong.sum())} of {wrong.size} elements of the {name}"
            return replace(
                record,
                verdict=Verdict.FAIL,
                check="bound",
                reason=f"{told} contradict those of the equivalent call by more than both bounds",
                tightness=float((apart[wrong] / room[wrong]).max()),
            )
    return record


PROPERTY = Property(
    name=NAME,
    hypothesis="The result depends on the order of keys, merges equal ones, or loses a constant.",
    effect="Sorting, packing or deduplicating a cache changes answers.",
    source="Metamorphic testing: Chen, Cheung, Yiu, HKUST-CS98-01, 1998.",
    refusal=_refusal,
    records=_records,
)
