"""The keys split at any place, and the two parts merged by the kernel's own log-sum-exps.

With O_i, L_i the exact output and log-sum-exp of a part, w_i = e^L_i / (e^L_1 + e^L_2), B_i and b_i
the bounds of a part's output and log-sum-exp and delta = b_1 + b_2, the exact merge of what the
kernel returned lies within

    w_1 B_1 + w_2 B_2 + w_1 w_2 (e^delta - 1)(|O_1 - O_2| + |B_1 - B_2|)

of the exact output of the whole (docs/theory/bounds.md, section 13).  The merge is computed by the
oracle, for it is an attention over two keys: scores L_i, values O_i.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import log

import numpy as np
from numpy.typing import NDArray

import references
from references.enclosure import Enclosure
from verify.case import Axes, Case, Inputs
from verify.certificate import Record
from verify.families._values import normal_qkv
from verify.integers import Draws
from verify.judge import Verdict
from verify.kernel import Kernel
from verify.limits import bound_of, lse_limits, output_limits
from verify.metrics import error_interval
from verify.operation import Operation
from verify.pipeline import examine
from verify.properties import Property, Trial, as_property, heard
from verify.truth import Truth
from verify.worker import Answer

NAME = "split_and_merge"
AXES = Axes(16, 48, d=64, heads=3)
CUTS = (1, 16, 29)  # 16 for kernels that claim multiples of 16 only
Array = NDArray[np.float64]


def _refusal(kernel: Kernel) -> str | None:
    if kernel.operation != "attention" or "return_lse" not in kernel.features:
        return "does not return a log-sum-exp"
    return None


def _recipe(draws: Draws) -> dict[str, Array]:
    """Scores of a few units, so that neither part owns a row for certain."""
    inputs = dict(normal_qkv(AXES, draws))
    return {**inputs, "q": 2 * inputs["q"]}


@dataclass(frozen=True)
class Part:
    """One call with everything that is known about it. Log-sum-exps and their bounds are natural.

    output, lse     what the kernel returned, as float64
    bound, b        bounds of both, +inf where nothing is promised
    """

    output: Array
    lse: Array
    truth: Truth
    exact_lse: Array
    bound: Array
    b: Array


def _part(answer: Answer, operation: Operation, inputs: Inputs, trial: Trial) -> Part:
    kernel, bench = trial.kernel, trial.bench
    truth = bench.oracle.truth(operation, inputs, kernel.declaration)
    limit = bound_of(operation, inputs, kernel.models(trial.format), bench)
    about_output, about_lse = (
        output_limits(limit, truth, True),
        lse_limits(limit, truth, kernel, True),
    )
    assert truth.lse is not None
    unit = log(2) if kernel.declaration.lse_base == "2" else 1.0
    lse = answer.outputs[1].values
    # Where the base is 2, ln 2 is rounded and so is the product: two roundings of float64.
    rounding = 2.0**-51 * np.abs(lse) if unit != 1.0 else 0.0
    return Part(
        answer.outputs[0].values,
        unit * lse,
        truth,
        unit * truth.lse.hi,
        np.where(about_output.flagged | about_output.ignored, np.inf, about_output.bound),
        np.where(
            about_lse.flagged | about_lse.ignored,
            np.inf,
            unit * about_lse.bound * (1 + 2.0**-40) + rounding,
        ),
    )


def merged(one: Part, two: Part) -> Enclosure:
    """The exact merge of what two calls returned: (rows, 1, 1, d_v)."""
    rows = one.lse.size
    scores = np.stack([one.lse, two.lse], axis=-1).reshape(rows, 1, 2, 1)
    values = np.stack([one.output, two.output], axis=-2).reshape(rows, 1, 2, -1)
    query = np.ones((rows, 1, 1, 1))
    return references.attention(query, scores, values, tier="arb", scale=1.0).output


def merged_bound(one: Part, two: Part) -> Array:
    """The bound of the merge, from the truth of the parts and their bounds: (..., d_v).

    Special     +inf where a part promises nothing; a relative 2^-40 pays for float64.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        w = 1 / (1 + np.exp(two.exact_lse - one.exact_lse))[..., None]
        v = 1 / (1 + np.exp(one.exact_lse - two.exact_lse))[..., None]
        apart = np.abs(one.truth.output.hi - two.truth.output.hi) + np.abs(one.bound - two.bound)
        total = w * one.bound + v * two.bound + w * v * np.expm1(one.b + two.b)[..., None] * apart
    return np.where(np.isfinite(total), total * (1 + 2.0**-40), np.inf)


def _cut(case: Case, keys: slice, label: str) -> Case:
    """The case with some of its keys."""
    inputs = case.build()
    kept = {
        name: replace(t, bits=np.ascontiguousarray(t.bits[:, :, keys])) if name in "kv" else t
        for name, t in inputs.tensors.items()
    }
    n_k = kept["k"].shape[2]
    needs = {"cross"} | ({"ragged"} if n_k % 16 else set())
    return replace(
        case,
        name=f"{case.name}-{label}",
        build=partial(Inputs, kept),
        notes={**case.notes, "n_k": float(n_k)},
        needs=frozenset(needs),
    )


def _records(trial: Trial) -> Iterator[Record]:
    kernel = trial.kernel
    bench = replace(trial.bench, grading=False)
    whole = trial.plan.attention("properties", "whole", AXES, _recipe)
    if kernel.out_of_scope(whole) is not None:
        return
    record = as_property(examine(whole, kernel, bench), NAME, "whole", trial.format)
    yield record
    for cut in CUTS:
        parts = [_cut(whole, keys, f"cut-{cut}") for keys in (slice(0, cut), slice(cut, None))]
        if any(kernel.out_of_scope(p) is not None for p in parts):
            continue
        calls = [heard(p, trial) for p in parts]
        for side, (told, _) in zip(("left", "right"), calls, strict=True):
            yield as_property(told, NAME, f"cut-{cut}-{side}", trial.format)
        if all(told.verdict in (Verdict.PASS, Verdict.FAIL) for told, _ in calls):
            renamed = replace(record, case=f"{NAME}/{trial.format.name}/cut-{cut}-merged")
            answers = [answer for _, answer in calls if answer is not None]
            yield _judged(renamed, whole, parts, answers, trial)


def _judged(
    record: Record, whole: Case, cases: list[Case], answers: list[Answer], trial: Trial
) -> Record:
    """The record of the whole, refuted where the merged parts contradict its truth."""
    kernel, bench = trial.kernel, trial.bench
    parts = []
    for case, answer in zip(cases, answers, strict=True):
        inputs = case.build()
        operation = kernel.resolve(case.operation, inputs["q"].shape[3])
        parts.append(_part(answer, operation, inputs, trial))
    inputs = whole.build()
    operation = kernel.resolve(whole.operation, inputs["q"].shape[3])
    truth = bench.oracle.truth(operation, inputs, kernel.declaration).output
    return _compared(record, parts[0], parts[1], truth)


def _compared(record: Record, one: Part, two: Part, truth: Enclosure) -> Record:
    """The record, refuted where the merge is further from the truth than its bound."""
    numbers = all(np.isfinite(p.output).all() and np.isfinite(p.lse).all() for p in (one, two))
    if not numbers:  # what is not finite was judged with the parts
        return record
    found = merged(one, two)
    error = error_interval(found.hi.reshape(truth.shape), truth)
    extra = (found.radius + np.abs(found.lo)).reshape(truth.shape)
    limit = merged_bound(one, two)
    beyond = (error.lower - extra > limit) & truth.finite
    ratio = np.where(limit > 0, (error.lower - extra) / np.where(limit > 0, limit, 1.0), 0.0)
    metrics = {**record.metrics, "merged_tightness": float(np.max(ratio, initial=0.0))}
    if not beyond.any():
        return replace(record, metrics=metrics)
    reason = f"merged: {int(beyond.sum())} of {beyond.size} elements beyond the bound"
    return replace(
        record,
        verdict=Verdict.FAIL,
        check=f"property:{NAME}",
        reason=f"{reason} of the two parts",
        tightness=float(ratio[beyond].max()),
        metrics=metrics,
    )


PROPERTY = Property(
    name=NAME,
    hypothesis="The log-sum-exp is not that of the output: other base, other maximum, no sink.",
    effect="Split caches, ring attention and cascades merge parts with wrong weights.",
    source="Dao: Flash-Decoding, 2023; Liu, Zaharia, Abbeel: Ring Attention, arXiv 2310.01889.",
    refusal=_refusal,
    records=_records,
)
