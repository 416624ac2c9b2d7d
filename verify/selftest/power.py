"""Power: the smallest planted error that this suite refutes, by format, family and n.

A defect of known size is planted in the best output that a format allows (the truth, rounded), and
made smaller until no case of a family refutes it.  Where the bound exceeds the signal in every
element of every case, zeros would pass: the cell says NOT CERTIFIABLE.

    scale         every element is too large by the same relative error
    element       one element is, the most exposed one
    bias          a constant, relative to the mean |O| of its row, is added to every element
    dropped key   one key is left out; the size is its probability
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from verify import families
from verify.calling import Bench
from verify.case import Case, Plan
from verify.declaration import FEATURES, Declaration
from verify.errors import OracleError
from verify.formats import Format
from verify.judge import Limits, Verdict, judge
from verify.kernel import Kernel
from verify.limits import bound_of, output_limits
from verify.metrics import error_interval
from verify.operation import OperationName
from verify.selftest.hunt import LEFT_OUT
from verify.truth import Oracle, Truth
from verify.worker import Worker

Array = NDArray[np.float64]
SIZES = tuple(2.0 ** (-k / 2) for k in range(54))  # 1 down to 2^-26.5, half a binade each
DEFECTS = ("scale", "element", "bias", "dropped key")
NOT_CERTIFIABLE = "NOT CERTIFIABLE"
NEVER = "not refuted"
ROWS = 8  # rows of a case in which a key is dropped


@dataclass(frozen=True)
class Subject:
    """One case with everything that decides about an output."""

    case: Case
    truth: Truth
    limits: Limits
    best: Array
    p: Array
    values: Array


Cell = dict[str, float | str]


def undeclared(operation: OperationName, fmt: Format) -> Kernel:
    """A kernel that claims everything and declares no model: held to the default of the format."""
    return Kernel(
        name="undeclared",
        operation=operation,
        features=frozenset(FEATURES) - {"return_lse"},
        declaration=Declaration(),
        formats=(fmt.name,),
        devices=("cpu",),
        identity={},
        environment={},
    )


def power(fmt: Format, only: tuple[str, ...] | None = None) -> dict[str, dict[str, Cell]]:
    """Family -> n -> the smallest refuted size of each defect, for attention in one format."""
    plan = Plan("attention", fmt)
    bench = Bench(Oracle(audit=0), Worker(), grading=False)  # no kernel is run
    found: dict[str, dict[str, Cell]] = {}
    for name in only or [n for n in families.names() if n not in LEFT_OUT]:
        for n, subjects in _by_length(name, plan, bench).items():
            found.setdefault(name, {})[str(n)] = cell(subjects)
    return found


def _by_length(name: str, plan: Plan, bench: Bench) -> dict[int, list[Subject]]:
    family = families.family(name)
    if family.unavailable is not None and family.unavailable() is not None:
        return {}
    grouped: dict[int, list[Subject]] = {}
    for case in family.cases(plan):
        subject = _subject(case, bench)
        if subject is not None:
            grouped.setdefault(int(case.notes["n_k"]), []).append(subject)
    return dict(sorted(grouped.items()))


def _subject(case: Case, bench: Bench) -> Subject | None:
    """None for a case whose output is nowhere finite and different from 0."""
    inputs, kernel = case.build(), undeclared("attention", case.format)
    operation = kernel.resolve(case.operation, inputs["q"].shape[3])
    try:
        truth = bench.oracle.truth(operation, inputs, kernel.declaration)
    except OracleError:
        return None
    if not (truth.output.finite & (truth.output.hi != 0)).any():
        return None
    bound = bound_of(operation, inputs, kernel.models(case.format), bench)
    limits = output_limits(bound, truth, shifted=True)
    parts = bench.oracle.decomposition(operation, inputs)
    repeat = inputs["q"].shape[1] // inputs["v"].shape[1]
    v = np.repeat(inputs["v"].values, repeat, axis=1)
    best = np.where(truth.output.finite, case.format.round(truth.output.hi), truth.output.hi)
    return Subject(case, truth, limits, best, parts.p, v)


def cell(subjects: list[Subject]) -> Cell:
    """The smallest refuted size of each defect over some cases."""
    if all(_vacuous(s) for s in subjects):
        return dict.fromkeys(DEFECTS, NOT_CERTIFIABLE)
    planters: dict[str, Callable[[Subject, float], Array]] = {
        "scale": _scaled,
        "element": _one_element,
        "bias": _biased,
    }
    found: Cell = {name: _smallest(subjects, plant) for name, plant in planters.items()}
    probabilities = [p for s in subjects for p in _dropped(s)]
    found["dropped key"] = min(probabilities, default=NEVER)
    return found


def _vacuous(subject: Subject) -> bool:
    """Whether zeros would pass."""
    return not _refuted(subject, np.where(subject.truth.output.finite, 0.0, subject.best))


def _refuted(subject: Subject, output: Array) -> bool:
    error = error_interval(output, subject.truth.output)
    return judge(output, subject.truth.output, error, subject.limits).verdict is Verdict.FAIL


def _smallest(subjects: list[Subject], plant: Callable[[Subject, float], Array]) -> float | str:
    """The last size, from 1 down, that some case refutes."""
    smallest: float | str = NEVER
    for size in SIZES:
        if not any(_refuted(s, plant(s, size)) for s in subjects):
            break
        smallest = size
    return smallest


def _stored(subject: Subject, output: Array) -> Array:
    finite = subject.truth.output.finite
    return np.where(finite, subject.case.format.round(np.where(finite, output, 0.0)), subject.best)


def _scaled(subject: Subject, size: float) -> Array:
    return _stored(subject, subject.truth.output.hi * (1 + size))


def _biased(subject: Subject, size: float) -> Array:
    hi = np.where(subject.truth.output.finite, subject.truth.output.hi, 0.0)
    level = np.abs(hi).mean(axis=-1, keepdims=True)
    return _stored(subject, hi + size * level)


def _one_element(subject: Subject, size: float) -> Array:
    """The element whose bound is the smallest part of it."""
    hi = subject.truth.output.hi
    usable = subject.truth.output.finite & ~subject.limits.flagged & ~subject.limits.ignored
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(usable & (hi != 0), subject.limits.bound / np.abs(hi), np.inf)
    output = np.array(subject.best)
    at = np.unravel_index(int(np.argmin(part)), output.shape)
    output[at] = subject.case.format.round(np.asarray(hi[at] * (1 + size)))
    return output


def _dropped(subject: Subject) -> Iterator[float]:
    """Probabilities of the keys whose loss is refuted, in a few rows."""
    flat = subject.p.reshape(-1, subject.p.shape[-1])
    d_v = subject.best.shape[-1]
    limits, best = subject.limits, subject.truth.output.hi.reshape(-1, d_v)
    usable = (subject.truth.output.finite & ~limits.flagged & ~limits.ignored).reshape(-1, d_v)
    bound = limits.bound.reshape(-1, d_v)
    per_head = subject.p.shape[2]
    values = subject.values.reshape(-1, *subject.values.shape[2:])
    for row in range(0, len(flat), max(len(flat) // ROWS, 1)):
        p = np.minimum(flat[row], 1 - 2.0**-20)[:, None]
        v = np.where(np.isfinite(values[row // per_head]), values[row // per_head], 0.0)
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(p * (v - best[row]) / (1 - p)) - subject.case.format.ulp(best[row])
            seen = ((error > bound[row]) & usable[row]).any(axis=-1)
        yield from (float(x) for x in flat[row][seen])
