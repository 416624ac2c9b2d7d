"""A single visible key returns its value bit for bit, where the kernel declares it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from verify.calling import run
from verify.case import Case
from verify.certificate import Record
from verify.families import family
from verify.judge import Verdict
from verify.kernel import Kernel
from verify.pipeline import examine
from verify.properties import Property, Trial, as_property

NAME = "one_key_identity"


def _refusal(kernel: Kernel) -> str | None:
    if kernel.operation != "attention" or not kernel.declaration.one_key_exact:
        return "does not declare that one key returns its value bit for bit"
    return None


def _cases(trial: Trial) -> Iterator[Case]:
    for case in family("one_key").cases(trial.plan):
        if trial.kernel.out_of_scope(case) is None and case.notes.get("n_k") == 1:
            yield case


def _records(trial: Trial) -> Iterator[Record]:
    bench = replace(trial.bench, grading=False)
    for case in _cases(trial):
        record = as_property(examine(case, trial.kernel, bench), NAME, case.name, trial.format)
        inputs = case.build()
        operation = trial.kernel.resolve(case.operation, inputs["q"].shape[3])
        output = run(trial.kernel, operation, inputs, trial.bench).outputs[0]
        repeat = inputs["q"].shape[1] // inputs["v"].shape[1]
        v = np.repeat(inputs["v"].bits, repeat, axis=1)
        wrong = int((output.bits != np.broadcast_to(v, output.shape)).sum())
        if wrong:
            reason = f"{wrong} of {output.bits.size} elements are not the bits of v"
            record = replace(record, verdict=Verdict.FAIL, check=f"property:{NAME}", reason=reason)
        yield record


PROPERTY = Property(
    name=NAME,
    hypothesis="s - m is computed inexactly, so that P of the only key is not 1.",
    effect="At large scores every probability is wrong by the same unseen factor.",
    source="Derived in docs/theory/bounds.md: exp(0) = 1 and 1 v = v are exact in every format.",
    refusal=_refusal,
    records=_records,
)
