"""Properties: what must hold bit for bit or structurally, beside the bound. One file each.

A bound compares one output with its truth.  A property looks at how calls relate: the same input in
another memory layout, the same call again, a call after one that differs in a single attribute.
Bits are compared only where the kernel declares that they are equal; otherwise each call answers
to its own bound, which cannot refute a right kernel.

A new property is a new file here that defines `PROPERTY`; nothing else has to be edited.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from verify.calling import Bench, Runner
from verify.case import Case, Inputs, Plan
from verify.certificate import Record
from verify.errors import IntegrityError, KernelError, UsageError
from verify.formats import Format
from verify.judge import Verdict
from verify.kernel import Kernel
from verify.operation import FORWARD, Operation, direction_of
from verify.packing import LENDERS, lend
from verify.pipeline import examine
from verify.worker import Answer


@dataclass(frozen=True)
class Trial:
    """What a property is tried on: a kernel in a format, a bench, and the plan of inputs."""

    kernel: Kernel
    format: Format
    bench: Bench
    plan: Plan


@dataclass(frozen=True)
class Property:
    """One structural claim.

    hypothesis   what a wrong kernel does
    effect       what failing means to a user
    source       the report or derivation it comes from
    refusal      why the kernel is not asked (it does not claim or declare it), or None
    records      tries the kernel; one record for each thing tried
    """

    name: str
    hypothesis: str
    effect: str
    source: str
    refusal: Callable[[Kernel], str | None] = field(compare=False)
    records: Callable[[Trial], Iterable[Record]] = field(compare=False)

    def tried(self, trial: Trial) -> Iterator[Record]:
        """The records; a call that fails between two of them ends the trial with one of its own."""
        try:
            yield from self.records(trial)
        except IntegrityError as error:
            yield self._ended(trial, Verdict.INTEGRITY, "integrity", str(error))
        except KernelError as error:
            yield self._ended(trial, Verdict.ERROR, "run", str(error))

    def _ended(self, trial: Trial, verdict: Verdict, check: str, reason: str) -> Record:
        case = f"{self.name}/{trial.format.name}/ended"
        name = trial.kernel.operation
        return Record(case, self.name, verdict, reason, check, {"name": name}, {}, {}, "")


def names() -> list[str]:
    """All properties, sorted."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def property_named(name: str) -> Property:
    """The property of that name. Raises UsageError with a pointer to the list."""
    if name not in names():
        raise UsageError(f"unknown property {name!r}; see `attncert list properties`")
    found = importlib.import_module(f"{__name__}.{name}").PROPERTY
    if not isinstance(found, Property) or found.name != name:
        raise TypeError(f"verify/properties/{name}.py must define PROPERTY with name={name!r}")
    return found


def try_all(trial: Trial, chosen: Iterable[str] | None = None) -> Iterator[Record]:
    """Records of every property that the kernel is asked for (or of those chosen)."""
    for name in names() if chosen is None else chosen:
        found = property_named(name)
        if found.refusal(trial.kernel) is None:
            yield from found.tried(trial)


def refusals(kernel: Kernel) -> dict[str, str]:
    """Why the kernel is not asked, for each property of which it is not."""
    reasons = {name: property_named(name).refusal(kernel) for name in names()}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def as_property(record: Record, name: str, label: str, fmt: Format) -> Record:
    """A record of an ordinary case, told as that of a property."""
    check = f"property:{name}" if record.check == "bound" else record.check
    return replace(record, case=f"{name}/{fmt.name}/{label}", family=name, check=check, grades={})


class Listening:
    """A runner that remembers what it was answered, so that what was judged can be compared."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.answers: list[Answer] = []

    def run(
        self,
        kernel: str,
        inputs: Inputs,
        options: dict[str, Any],
        shapes: list[tuple[tuple[int, ...], Format]],
        *,
        device: str = "cpu",
        layout: str = "contiguous",
        wanted: tuple[str, ...] = (),
    ) -> Answer:
        """See `verify.pipeline.Runner`."""
        self.answers.append(
            self.runner.run(
                kernel, inputs, options, shapes, device=device, layout=layout, wanted=wanted
            )
        )
        return self.answers[-1]


def heard(case: Case, trial: Trial) -> tuple[Record, Answer | None]:
    """The record of a case, and the answer that it judged (None: the call failed)."""
    listening = Listening(trial.bench.runner)
    bench = replace(trial.bench, runner=listening, grading=False)
    record = examine(case, trial.kernel, bench)
    return record, listening.answers[0] if listening.answers else None


def always(kernel: Kernel) -> str | None:
    """Every kernel is asked."""
    return None


def small_case(trial: Trial, label: str, *, shift: int = 0) -> Case:
    """A plain case with all axes distinct that every kernel claims (d_v = d, n_q = n_k); causal
    where the kernel claims causal calls only."""
    from verify.case import Axes
    from verify.families._values import normal_qkv

    if direction_of(trial.kernel.operation) == "backward":
        return _small_gradient(trial, label, shift)
    if trial.kernel.operation in LENDERS:
        plan = replace(trial.plan, operation=LENDERS[trial.kernel.operation])
        whole = replace(trial, plan=plan, kernel=replace(trial.kernel, operation=plan.operation))
        return lend(small_case(whole, label, shift=shift), trial.plan)
    if trial.kernel.operation != "attention":
        return trial.plan.rows("properties", label, (6, 160), lambda d: 3.0 * d.normal((6, 160)))
    axes = Axes(n_q=48 + 16 * shift, n_k=48 + 16 * shift, d=64, batch=2, heads=3)
    causal = "causal" in trial.kernel.declaration.requires
    operation = Operation("attention", causal=causal)
    recipe = partial(normal_qkv, axes)
    return trial.plan.attention("properties", label, axes, recipe, operation=operation)


def _small_gradient(trial: Trial, label: str, shift: int) -> Case:
    """The same for a gradient, smaller: its truth costs more."""
    from verify.case import Axes
    from verify.families._values import normal_qkv
    from verify.family import with_gradient

    forward = replace(trial.plan, operation=FORWARD[trial.kernel.operation])
    if forward.operation != "attention":
        shape = (6, 96)
        case = forward.rows("properties", label, shape, lambda d: 3.0 * d.normal(shape))
    else:
        axes = Axes(n_q=16 + 16 * shift, n_k=16 + 16 * shift, d=32, batch=2, heads=3)
        case = forward.attention("properties", label, axes, lambda d: normal_qkv(axes, d))
    return with_gradient(case, trial.plan)
