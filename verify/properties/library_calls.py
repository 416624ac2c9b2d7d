"""A kernel that declares which libraries' softmax or attention it calls uses no other.

Only a declaration (`calls`) can be contradicted, so only kernels with one are watched: watching is
an intrusion, which compilers in particular do not stand.  A declaration that cannot be checked is
INCONCLUSIVE, or failing while one is watched would be a way out.  Which libraries were loaded is in
every certificate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from verify.case import Axes, Case
from verify.certificate import Record
from verify.families._values import normal_qkv
from verify.judge import Verdict
from verify.kernel import Kernel
from verify.operation import direction_of
from verify.properties import Property, Trial, as_property, heard, small_case

NAME = "library_calls"
WHOLE = ("softmax", "attention", "logsumexp")  # words of operators that do all of the work
# One of them for each path that a kernel may leave to somebody else.
AXES = (Axes(32, 32, d=64), Axes(37, 37, d=64), Axes(1, 160, d=64), Axes(32, 32, d=24))
ROWS = ((4, 64), (3, 37), (2, 1000))


def _refusal(kernel: Kernel) -> str | None:
    if kernel.declaration.calls is None:
        return "declares nothing about the libraries that it calls"
    return None


def _cases(trial: Trial) -> Iterator[Case]:
    plan = trial.plan
    if direction_of(trial.kernel.operation) == "backward":
        yield small_case(trial, "calls")
    elif trial.kernel.operation == "attention":
        for axes in AXES:
            yield plan.attention("properties", "calls", axes, partial(normal_qkv, axes))
    else:
        for shape in ROWS:
            yield plan.rows("properties", "calls", shape, lambda d, s=shape: d.normal(s))  # type: ignore[misc]


def whole_operations(operators: tuple[str, ...]) -> list[str]:
    """The operators that do a whole softmax or attention, by their names."""
    return [name for name in operators if any(word in name.lower() for word in WHOLE)]


def undeclared(found: list[str], declared: str) -> list[str]:
    """Those of the operators that a declaration does not cover."""
    words = [w.strip() for w in declared.split(",") if w.strip() not in ("", "none")]
    return [name for name in found if not any(word in name for word in words)]


def _records(trial: Trial) -> Iterator[Record]:
    watching = replace(trial, bench=replace(trial.bench, layout="watched"))
    for case in _cases(trial):
        if trial.kernel.out_of_scope(case) is not None:
            continue
        record, answer = heard(case, watching)
        if record.verdict is Verdict.ERROR:  # perhaps the watching is what it cannot stand
            record, answer = heard(case, trial)
        told = _told(record, answer.operators if answer else None, trial)
        yield as_property(told, NAME, case.name, trial.format)


def _told(record: Record, operators: tuple[str, ...] | None, trial: Trial) -> Record:
    if record.verdict is not Verdict.PASS:
        return record
    if operators is None:
        reason = "declares which libraries it calls, but fails or tells nothing while it is watched"
        return replace(record, verdict=Verdict.INCONCLUSIVE, reason=reason)
    found = whole_operations(operators)
    record = replace(record, metrics={**record.metrics, "operators": list(operators)})
    wrong = undeclared(found, trial.kernel.declaration.calls or "none")
    if wrong:
        return replace(
            record,
            verdict=Verdict.FAIL,
            check="bound",
            reason=f"calls {', '.join(wrong)}, which it does not declare",
        )
    return replace(record, reason=f"calls {', '.join(found)}" if found else "")


PROPERTY = Property(
    name=NAME,
    hypothesis="Shapes that a kernel does not handle go to the library that it claims to replace.",
    effect="What is certified, and timed, is somebody else's kernel.",
    source="Kernels written for benchmarks that fall back to torch.",
    refusal=_refusal,
    records=_records,
)
