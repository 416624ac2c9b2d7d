"""An option that a kernel claims changes its output, alone, beside each other one and with heads in
groups.

Where the bits with the option are those without it although the two truths differ by more than both
bounds together, the option was ignored.  Each call answers to its own bound besides: that is what
refutes an option that is applied wrongly rather than not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from verify.case import Arrays, Axes, Case, Plan
from verify.certificate import Record
from verify.families import _options
from verify.families._options import OPTIONS
from verify.families._values import with_ones
from verify.integers import Draws
from verify.judge import Verdict
from verify.kernel import Kernel
from verify.limits import bound_of, output_limits
from verify.operation import Operation
from verify.properties import Property, Trial, as_property, heard

NAME = "option_has_effect"
AXES = Axes(32, 32, d=64, heads=2)
GROUPED = Axes(32, 32, d=64, heads=4, kv_heads=2)
CHOICES = (*OPTIONS, "gqa")  # fewer kv heads than heads: no option, but each is tried with it
Options = frozenset[str]


def _refusal(kernel: Kernel) -> str | None:
    if kernel.operation != "attention" or not kernel.features & set(OPTIONS):
        return "claims no option"
    return None


def _axes(options: Options) -> Axes:
    return GROUPED if "gqa" in options else AXES


def _inputs(plan: Plan, options: Options, _: Draws) -> Arrays:
    """The same q, k, v whatever the options; every query sees the key of its own place."""
    axes, draws = _axes(options), plan.draws(NAME, "inputs")
    q, k = 2 * draws.normal(axes.q), draws.normal(axes.k)
    inputs = {"q": q, "k": k, "v": with_ones(draws, axes)}
    mask = draws.integers(0, 2, axes.scores) == 1
    extras = {
        "mask": mask | np.eye(axes.n_q, dtype=np.bool_),
        "bias": 2 * draws.normal(axes.scores),
        "sinks": 2 + draws.normal((axes.heads,)),
    }
    return {**inputs, **{n: a for n, a in extras.items() if n in options}}


def _case(plan: Plan, options: Options) -> Case:
    settings = _options.settings(options, AXES.d)
    name = "+".join(n for n in CHOICES if n in options) or "none"
    return plan.attention(
        "properties",
        name,
        _axes(options),
        partial(_inputs, plan, options),
        operation=Operation("attention", **settings),
        extras=_options.extras(options),
    )


@dataclass(frozen=True)
class Call:
    """One call: its record; if it answered, its bits, its truth and the bound around it."""

    record: Record
    bits: Any = None
    truth: Any = None
    bound: Any = None


def _call(case: Case, trial: Trial) -> Call:
    """Judge a case and keep what the comparison needs."""
    record, answer = heard(case, trial)
    if answer is None or record.verdict not in (Verdict.PASS, Verdict.FAIL):
        return Call(record)
    inputs = case.build()
    operation = trial.kernel.resolve(case.operation, AXES.d)
    truth = trial.bench.oracle.truth(operation, inputs, trial.kernel.declaration)
    limit = bound_of(operation, inputs, trial.kernel.models(trial.format), trial.bench)
    limits = output_limits(limit, truth, shifted=True)
    bound = np.where(limits.flagged | limits.ignored, np.inf, limits.bound)
    return Call(record, answer.outputs[0].bits, truth.output.hi, bound)


def _records(trial: Trial) -> Iterator[Record]:
    claimed = [n for n in CHOICES if n == "gqa" or n in trial.kernel.features]
    sets = [frozenset(s) for number in (0, 1, 2) for s in combinations(claimed, number)]
    calls: dict[Options, Call] = {}
    for options in sets:
        case = _case(trial.plan, options)
        if trial.kernel.out_of_scope(case) is not None:
            continue
        calls[options] = _call(case, trial)
        others = {n: calls[options - {n}] for n in options if n != "gqa" and options - {n} in calls}
        record = _judged(calls[options], others)
        yield as_property(record, NAME, case.name, trial.format)


def _judged(call: Call, others: dict[str, Call]) -> Record:
    """The record, refuted where an option changes no bit although it must."""
    for option, without in others.items():
        if call.bits is None or without.bits is None:
            continue
        apart = np.abs(call.truth - without.truth)
        must = apart > (call.bound + without.bound) * (1 + 2.0**-40)
        if must.any() and bool((call.bits == without.bits).all()):
            reason = (
                f"{option} changes no bit of the output; {int(must.sum())} elements must change"
            )
            return replace(call.record, verdict=Verdict.FAIL, check="bound", reason=reason)
    return call.record


PROPERTY = Property(
    name=NAME,
    hypothesis="An option is accepted and ignored: alone, beside another one, or with heads in "
    "groups.",
    effect="A model runs with a window, cap or sink that its attention never had.",
    source="Tests with a window of -1, or of 1024 in 2048, which no kernel can fail.",
    refusal=_refusal,
    records=_records,
)
