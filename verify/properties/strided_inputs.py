"""Strided, sliced and misaligned views hold the same numbers, so they have the same truth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from verify.certificate import Record
from verify.kernel import Kernel
from verify.pipeline import examine
from verify.properties import Property, Trial, as_property, small_case

NAME = "strided_inputs"
LAYOUTS = ("transposed", "sliced", "offset")


def _refusal(kernel: Kernel) -> str | None:
    if "strides" in kernel.declaration.without:
        return "declares that it takes contiguous inputs only"
    return None


def _records(trial: Trial) -> Iterator[Record]:
    for layout in LAYOUTS:
        bench = replace(trial.bench, layout=layout, grading=False)
        record = examine(small_case(trial, "strides"), trial.kernel, bench)
        yield as_property(record, NAME, layout, trial.format)


PROPERTY = Property(
    name=NAME,
    hypothesis="The kernel walks its inputs as if they were contiguous, or assumes alignment.",
    effect="Transposed or sliced activations give numbers of other rows, or of guard memory.",
    source="Dao-AILab/flash-attention issues on strides; faults seen with expanded masks.",
    refusal=_refusal,
    records=_records,
)
