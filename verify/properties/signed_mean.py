"""The mean signed error over many independent outputs is near zero under round to nearest.

Without error bound: a statistical statement, refuted only by |z| >= 12 over the means of rows
together with a mean of at least a tenth of an ulp, and only for a kernel that declares rounding to
nearest.  Independent V > 0; rows are the sample, since elements of a row share their scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from verify.case import Case
from verify.certificate import Record
from verify.families import family
from verify.judge import Verdict
from verify.kernel import Kernel
from verify.pipeline import examine
from verify.properties import Property, Trial, as_property

NAME = "signed_mean"
LARGEST_Z = 12.0
LARGEST_MEAN = 0.1


def _refusal(kernel: Kernel) -> str | None:
    if kernel.declaration.rounding != "nearest":
        return "does not declare rounding to nearest"
    if kernel.operation not in ("attention", "softmax"):
        return "no family of independent outputs for this operation"
    return None


def _records(trial: Trial) -> Iterator[Record]:
    bench = replace(trial.bench, grading=False)
    attention = trial.kernel.operation == "attention"
    plain = family("positive_v").cases(trial.plan)
    cases = list(plain) if attention else [_softmax_case(trial)]
    for case in cases:
        record = as_property(examine(case, trial.kernel, bench), NAME, case.name, trial.format)
        mean, z = record.metrics.get("mean_ulp"), record.metrics.get("z")
        if z is None or mean is None or record.verdict is not Verdict.PASS:
            yield record
            continue
        if abs(z) >= LARGEST_Z and abs(mean) >= LARGEST_MEAN:
            reason = f"mean signed error {mean:.3f} ulp, z = {z:.0f}: not rounding to nearest"
            margin = abs(z) / LARGEST_Z
            record = replace(
                record,
                verdict=Verdict.FAIL,
                check=f"property:{NAME}",
                reason=reason,
                tightness=margin,
            )
        yield record


def _softmax_case(trial: Trial) -> Case:
    return trial.plan.rows("properties", "signed", (256, 64), lambda d: d.normal((256, 64)))


PROPERTY = Property(
    name=NAME,
    hypothesis="P, the accumulator or the output is truncated instead of rounded.",
    effect="An error of one sign in every element adds up over layers and steps.",
    source="arXiv 2510.04212 (biased rounding in flash attention); truncating bf16 stores.",
    refusal=_refusal,
    records=_records,
)
