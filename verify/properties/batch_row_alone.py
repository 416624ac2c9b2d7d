"""A batch row has the same bits alone, where the kernel declares batch invariance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from verify.calling import run
from verify.case import Inputs, Tensor
from verify.certificate import Record
from verify.judge import Verdict
from verify.kernel import Kernel
from verify.packing import LENDERS
from verify.pipeline import examine
from verify.properties import Property, Trial, as_property, small_case

NAME = "batch_row_alone"


def _refusal(kernel: Kernel) -> str | None:
    if not kernel.declaration.batch_invariant:
        return "does not declare batch invariance"
    if kernel.operation in LENDERS:
        return "its rows belong to targets, sequences or pages"
    return None


def _records(trial: Trial) -> Iterator[Record]:
    case = small_case(trial, "batch")
    record = examine(case, trial.kernel, replace(trial.bench, grading=False))
    record = as_property(record, NAME, "last-row", trial.format)
    inputs = case.build()
    alone = Inputs({n: Tensor(t.format, t.bits[-1:]) for n, t in inputs.tensors.items()})
    d = inputs["q"].shape[3] if "q" in inputs.tensors else None
    operation = trial.kernel.resolve(case.operation, d)
    whole = run(trial.kernel, operation, inputs, trial.bench).outputs[0]
    part = run(trial.kernel, operation, alone, trial.bench).outputs[0]
    wrong = int((whole.bits[-1:] != part.bits).sum())
    if wrong:
        reason = f"{wrong} of {part.bits.size} elements have other bits when the row is alone"
        record = replace(record, verdict=Verdict.FAIL, check=f"property:{NAME}", reason=reason)
    yield record


PROPERTY = Property(
    name=NAME,
    hypothesis="Tiling or the order of additions depends on how many rows are in the batch.",
    effect="The same request gives other tokens when the server is busy.",
    source="vLLM pull request 48694, issue 27433 (batch invariance).",
    refusal=_refusal,
    records=_records,
)
