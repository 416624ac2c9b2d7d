"""Equal calls give equal bits, where the kernel declares that it is deterministic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from verify.calling import run
from verify.certificate import Record
from verify.judge import Verdict
from verify.kernel import Kernel
from verify.pipeline import examine
from verify.properties import Property, Trial, as_property, small_case

NAME = "equal_calls"
CALLS = 8


def _refusal(kernel: Kernel) -> str | None:
    if not kernel.declaration.deterministic:
        return "does not declare that it is deterministic"
    return None


def _records(trial: Trial) -> Iterator[Record]:
    case = small_case(trial, "equal", shift=2)
    record = examine(case, trial.kernel, replace(trial.bench, grading=False))
    inputs = case.build()
    d = inputs["q"].shape[3] if "q" in inputs.tensors else None
    operation = trial.kernel.resolve(case.operation, d)
    answers = [run(trial.kernel, operation, inputs, trial.bench) for _ in range(CALLS)]
    first = [out.bits.tobytes() for out in answers[0].outputs]
    differing = sum([out.bits.tobytes() for out in a.outputs] != first for a in answers[1:])
    record = as_property(record, NAME, f"{CALLS}-calls", trial.format)
    if differing:
        reason = f"{differing} of {CALLS - 1} repeated calls gave other bits than the first"
        record = replace(record, verdict=Verdict.FAIL, check=f"property:{NAME}", reason=reason)
    yield record


PROPERTY = Property(
    name=NAME,
    hypothesis="The order of additions, or memory that is read before it is written, varies.",
    effect="Runs cannot be repeated although the kernel promises it.",
    source="Dao-AILab/flash-attention issue 2244; vLLM issue 27433.",
    refusal=_refusal,
    records=_records,
)
