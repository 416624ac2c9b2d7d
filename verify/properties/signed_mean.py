"""The mean signed error over many independent outputs is near zero under round to nearest.

Without error bound: a statistical statement, refuted only by |z| >= 12 over the means of rows
together with a mean of at least a tenth of an ulp, and only for a kernel that declares rounding to
nearest.  Independent V > 0; rows are the sample, since elements of a row share their scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from verify.case import Arrays, Axes, Case
from verify.certificate import Record
from verify.families import family
from verify.integers import Draws
from verify.judge import Verdict
from verify.kernel import Kernel
from verify.pipeline import examine
from verify.properties import Property, Trial, as_property

NAME = "signed_mean"
LARGEST_Z = 12.0
LARGEST_MEAN = 0.1
TIES = Axes(64, 60, heads=4)


def _refusal(kernel: Kernel) -> str | None:
    if kernel.declaration.rounding != "nearest":
        return "does not declare rounding to nearest"
    if kernel.operation not in ("attention", "softmax"):
        return "no family of independent outputs for this operation"
    return None


def _records(trial: Trial) -> Iterator[Record]:
    bench = replace(trial.bench, grading=False)
    for case in _cases(trial):
        record = as_property(examine(case, trial.kernel, bench), NAME, case.name, trial.format)
        yield _judged(record)


def _judged(record: Record) -> Record:
    """The record, refuted by its mean where that says more than its bound."""
    mean, z = record.metrics.get("mean_ulp"), record.metrics.get("z")
    numeric = record.verdict is Verdict.PASS or record.check == f"property:{NAME}"
    if z is None or mean is None or not numeric:
        return record
    margin = abs(z) / LARGEST_Z
    if margin < 1 or abs(mean) < LARGEST_MEAN:
        return record
    return replace(
        record,
        verdict=Verdict.FAIL,
        check=f"property:{NAME}",
        reason=f"mean signed error {mean:.3f} ulp, z = {z:.0f}: not rounding to nearest",
        tightness=margin,
    )


def _cases(trial: Trial) -> Iterator[Case]:
    if trial.kernel.operation != "attention":
        yield _softmax_case(trial)
        return
    yield from family("positive_v").cases(trial.plan)
    # A constant offset gives every tie the same P, whose one rounding is a bias that conforms.
    if not any(m.max_offset for m in trial.kernel.models(trial.format).variants):
        yield trial.plan.attention(NAME, "ties", TIES, _tied)


def _tied(draws: Draws) -> Arrays:
    """Three equal keys at the maximum of every row, V > 0; the row sums differ."""
    q, k = draws.normal(TIES.q), draws.normal(TIES.k)
    q[..., 0], k[..., 0] = 8.0, 0.0
    k[..., 1::20, :] = 0.0
    k[..., 1::20, 0] = 6.0
    return {"q": q, "k": k, "v": np.abs(draws.normal(TIES.v)) + 0.25}


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
