"""One interior element of an input changes, at the same address: the answer must follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from verify.case import Case, Inputs, Tensor
from verify.certificate import Record
from verify.pipeline import examine
from verify.properties import Property, Trial, always, as_property, small_case

NAME = "changed_element"


def _changed(case: Case, name: str) -> Case:
    """The case with one element in the middle of an input replaced by 3 (by -3 where it is 3)."""

    def build() -> Inputs:
        inputs = case.build()
        tensor = inputs[name]
        middle = tensor.bits.size // 2 + 1
        bits = tensor.bits.copy()
        value = -3.0 if tensor.values.flat[middle] == 3.0 else 3.0
        bits.flat[middle] = Tensor.of(tensor.format, value).bits  # type: ignore[arg-type]
        changed = {**inputs.tensors, name: Tensor(tensor.format, bits)}
        return Inputs(changed, inputs.mask, inputs.integers)

    return replace(case, name=f"{case.name}-{name}", build=build)


def _records(trial: Trial) -> Iterator[Record]:
    first = small_case(trial, "first")
    bench = replace(trial.bench, grading=False)
    names = ("k", "v") if "v" in first.build().tensors else ("x",)
    for name in names:
        for place, case in enumerate((first, _changed(first, name))):
            record = examine(case, trial.kernel, bench)
            yield as_property(record, NAME, f"{name}-{'AB'[place]}", trial.format)


PROPERTY = Property(
    name=NAME,
    hypothesis="An answer is kept under a fingerprint of a few elements, or under an address.",
    effect="A server answers with the result of an earlier request that looked alike.",
    source="Kernels written for benchmarks that cache by pointer, by corners or by a checksum.",
    refusal=always,
    records=_records,
)
