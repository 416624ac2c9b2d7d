"""Every element of an output is written: fresh memory is filled with NaN, and none of it shows.

torch fills what `empty` gives with NaN during these calls.  (In all other calls blocks that read as
NaN are left behind for the next allocation to find, which an allocator may ignore.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from verify.case import Axes, Case, Plan
from verify.certificate import Record
from verify.families._values import normal_qkv
from verify.judge import Verdict
from verify.operation import direction_of
from verify.packing import LENDERS, lend
from verify.pipeline import examine
from verify.properties import Property, Trial, always, as_property, small_case

NAME = "outputs_written"
AXES = (Axes(32, 32), Axes(40, 40), Axes(7, 35), Axes(1, 160))
ROWS = ((4, 64), (3, 37), (2, 1000))


def _cases(trial: Trial) -> Iterator[Case]:
    if trial.kernel.operation in LENDERS:
        plan = replace(trial.plan, operation=LENDERS[trial.kernel.operation])
        yield from (lend(case, trial.plan) for case in _plain(plan))
        return
    if direction_of(trial.kernel.operation) == "backward":
        yield small_case(trial, "written")
        return
    yield from _plain(trial.plan)


def _plain(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention":
        for shape in ROWS:
            yield plan.rows("properties", "written", shape, lambda d, s=shape: d.normal(s))  # type: ignore[misc]
        return
    for axes in AXES:
        yield plan.attention("properties", "written", axes, partial(normal_qkv, axes))


def _records(trial: Trial) -> Iterator[Record]:
    bench = replace(trial.bench, layout="filled", grading=False)
    for case in _cases(trial):
        if trial.kernel.out_of_scope(case) is None:
            record = examine(case, trial.kernel, bench)
            if record.verdict is Verdict.FAIL and record.check == "finite":
                reason = "not finite once fresh memory is filled with NaN: it was never written"
                record = replace(record, reason=reason, check="bound")
            yield as_property(record, NAME, case.name, trial.format)


PROPERTY = Property(
    name=NAME,
    hypothesis="A tail of the output, or a buffer that is accumulated into, is never written.",
    effect="Old numbers of other requests show in the answer, differently in every run.",
    source="flashinfer-ai/flashinfer issue 358 (rows without keys left unwritten).",
    refusal=always,
    records=_records,
)
