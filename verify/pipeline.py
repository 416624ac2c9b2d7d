"""The sentence: a case becomes inputs; kernel and oracle answer; error meets bound; a verdict.

    family -> case -> inputs -> truth ----------------\\
                        |                              > error -> verdict -> certificate
                        +-----> kernel -> output -----/             ^
                        +-----> arithmetic model -> bound ---------/
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from verify.bounds import Bound
from verify.calling import Bench, head_dimension, run
from verify.case import Case, Inputs
from verify.case_grades import grade
from verify.certificate import Record
from verify.errors import InconclusiveError, IntegrityError, KernelError
from verify.evidence import WAYS
from verify.findings import find, reason_of, sample, stages_of
from verify.judge import Verdict, worst
from verify.kernel import Kernel
from verify.limits import MANY_SCORES, limit_of, require_same_bound, scores_of
from verify.metrics import ErrorInterval, detectable, error_interval, measure, row_sum_defect
from verify.operation import Operation
from verify.parts import Part, parts_of
from verify.truth import Oracle, Truth
from verify.worker import Answer


def examine(case: Case, kernel: Kernel, bench: Bench) -> Record:
    """Judge one kernel on one case."""
    started = time.perf_counter()
    inputs = case.build()
    asked = kernel.resolve(case.operation, head_dimension(inputs))
    operation = asked.judged
    beyond = _beyond_domain(kernel, operation, inputs, bench.oracle)
    beyond = beyond or _empty_row_undeclared(kernel, operation, inputs, bench.oracle)
    if beyond is not None:
        return _failed(case, asked, inputs, Verdict.OUT_OF_SCOPE, "bound", beyond)
    try:
        answer = run(kernel, asked, inputs, bench)
    except IntegrityError as error:
        return _failed(case, asked, inputs, Verdict.INTEGRITY, "integrity", str(error))
    except InconclusiveError as error:
        return _failed(case, asked, inputs, Verdict.INCONCLUSIVE, "run", str(error))
    except KernelError as error:
        return _failed(case, asked, inputs, Verdict.ERROR, "run", str(error))
    truth = bench.oracle.truth(operation, inputs, kernel.declaration)
    limit = limit_of(kernel, operation, inputs, kernel.models(case.format), bench)
    record = decide(case, kernel, operation, inputs, answer, truth, limit)
    record = _confirmed(record, case, kernel, asked, inputs, answer, limit, bench)
    record = _described(record, case, kernel, operation, inputs, answer, truth, bench)
    seconds = round(time.perf_counter() - started, 4)
    return replace(record, operation={"name": asked.name, **asked.options()}, seconds=seconds)


def _confirmed(
    record: Record,
    case: Case,
    kernel: Kernel,
    asked: Operation,
    inputs: Inputs,
    answer: Answer,
    limit: Bound,
    bench: Bench,
) -> Record:
    """A refutation, or an undecided verdict, once more: with the surer truth, the bound computed
    again, and a second call.

    Raises      OracleError where the truths or the bounds contradict each other.
    """
    operation = asked.judged
    if record.verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE) and record.check == "bound":
        surer = bench.oracle.confirm(operation, inputs, kernel.declaration)
        record = decide(case, kernel, operation, inputs, answer, surer, limit)
        if record.verdict is Verdict.FAIL:
            require_same_bound(case, kernel, operation, inputs, bench)
    if record.verdict is Verdict.FAIL and WAYS[kernel.way].repeatable:
        repeated = repeat(kernel, asked, inputs, answer, bench)
        record = replace(record, metrics={**record.metrics, "repeated": repeated})
    if answer.alias is not None and record.verdict is not Verdict.FAIL:
        why = f"the output shares its memory with {answer.alias}"
        record = replace(record, verdict=Verdict.ERROR, check="alias", reason=why)
    return record


def _described(
    record: Record,
    case: Case,
    kernel: Kernel,
    operation: Operation,
    inputs: Inputs,
    answer: Answer,
    truth: Truth,
    bench: Bench,
) -> Record:
    """The record with what decides nothing: the range of scores, the rounding of the inputs, and
    the error under every reference contract."""
    few = scores_of(inputs) <= MANY_SCORES
    if few:
        record = replace(record, scores=score_range(operation, inputs, bench.oracle))
    if case.unrounded is not None:
        found = input_rounding(case, kernel, operation, truth, bench.oracle)
        record = replace(record, metrics={**record.metrics, "input_rounding": found})
    if few and bench.grading:
        graded = grade(case, kernel, operation, inputs, answer, truth, bench)
        record = replace(record, grades=graded)
    return record


def decide(
    case: Case,
    kernel: Kernel,
    operation: Operation,
    inputs: Inputs,
    answer: Answer,
    truth: Truth,
    limit: Bound,
) -> Record:
    """Judge every output; the record tells of the worst."""
    judged = [
        (part, error_interval(part.output.values, part.truth), part.judgement())
        for part in parts_of(kernel, operation, inputs, answer, truth, limit)
    ]
    verdict = worst(j[-1].verdict for j in judged)
    part, error, judgement = max(
        (j for j in judged if j[-1].verdict is verdict),
        key=lambda j: j[-1].tightness,
        default=judged[0],
    )
    finding = find(part, error.upper, judgement)
    first, first_error, _ = judged[0]
    output = first.output
    metrics = measure(output.values, truth.output, first_error, output.format, truth.magnitude)
    metrics |= _power(first, first_error)
    if operation.name == "softmax":
        metrics["row_sum_defect"] = row_sum_defect(output.values)
    return Record(
        case=case.id,
        family=case.family,
        verdict=verdict,
        reason=reason_of(verdict, judgement, part.name),
        check=judgement.check,
        operation={"name": operation.name, **operation.options()},
        notes=dict(case.notes),
        shape={k: tuple(t.shape) for k, t in inputs.tensors.items()},
        digest=inputs.digest,
        tightness=max(j[-1].tightness for j in judged),
        median_tightness=judged[0][-1].median_tightness,
        counts=_add([j[-1].counts for j in judged]),
        metrics=metrics,
        stages=stages_of(part.bound, judgement) if part.bound else {},
        finding=finding,
        sample=sample(output, truth.output),
        tier=truth.tier,
    )


def repeat(
    kernel: Kernel, operation: Operation, inputs: Inputs, answer: Answer, bench: Bench
) -> str:
    """What a second call of a refuted kernel gave: a refutation that does not repeat says so."""
    try:
        again = run(kernel, operation, inputs, bench)
    except (IntegrityError, KernelError) as error:
        return f"an error: {error}"
    pairs = list(zip(answer.outputs, again.outputs, strict=True))
    different = sum(int((a.bits != b.bits).sum()) for a, b in pairs)
    total = sum(a.bits.size for a, _ in pairs)
    return "the same bits" if not different else f"other bits in {different} of {total} elements"


def _beyond_domain(
    kernel: Kernel, operation: Operation, inputs: Inputs, oracle: Oracle
) -> str | None:
    """Why the scores lie outside the domain that the kernel declares, or None."""
    limit = kernel.declaration.score_limit
    if limit is None:
        return None
    found = score_range(operation, inputs, oracle)
    if found is None or max(abs(s) for s in found) <= limit:
        return None
    return f"scores up to {max(abs(s) for s in found):.4g}; the kernel declares {limit:.4g}"


def _empty_row_undeclared(
    kernel: Kernel, operation: Operation, inputs: Inputs, oracle: Oracle
) -> str | None:
    """Why nothing is promised of gradients beside a row without keys, or None."""
    declared = kernel.declaration.empty_row
    if not operation.backward or not operation.is_attention or declared in (None, "0"):
        return None
    if not oracle.decomposition(operation, inputs).empty.any():
        return None
    return f"a row without keys gives {declared} in the forward pass: its gradient is undeclared"


def score_range(operation: Operation, inputs: Inputs, oracle: Oracle) -> tuple[float, float] | None:
    """Smallest and largest finite score of a case."""
    scores = oracle.decomposition(operation, inputs).score
    finite = scores[np.isfinite(scores)]
    return (float(finite.min()), float(finite.max())) if finite.size else None


def input_rounding(
    case: Case, kernel: Kernel, operation: Operation, truth: Truth, oracle: Oracle
) -> dict[str, Any]:
    """How far rounding the inputs alone moves the truth: no kernel's error, and told apart from it.

    Without error bound: |truth of the rounded inputs - truth of the unrounded ones|, from the
    middles of two enclosures.
    """
    assert case.unrounded is not None
    before = oracle.truth(operation, case.unrounded(), kernel.declaration).output
    moved = error_interval(truth.output.hi, before)
    found = measure(truth.output.hi, before, moved, case.format, truth.magnitude)
    return {k: found.get(k) for k in ("max_absolute", "max_scaled", "rmse")}


def _power(part: Part, error: ErrorInterval) -> dict[str, Any]:
    """The smallest uniform relative error that this case would refute, and would mark SUSPECT."""
    use = ~(part.limits.flagged | part.limits.ignored)
    return {
        "refutes_from": detectable(part.limits.bound, error, part.truth, use),
        "suspects_from": detectable(part.limits.probable, error, part.truth, use),
    }


def _add(counts: list[dict[str, int]]) -> dict[str, int]:
    return {key: sum(c[key] for c in counts) for key in counts[0]}


def _failed(
    case: Case, operation: Operation, inputs: Inputs, verdict: Verdict, check: str, reason: str
) -> Record:
    notes: Mapping[str, float] = dict(case.notes)
    return Record(
        case=case.id,
        family=case.family,
        verdict=verdict,
        reason=reason,
        check=check,
        operation={"name": operation.name, **operation.options()},
        notes=notes,
        shape={k: tuple(t.shape) for k, t in inputs.tensors.items()},
        digest=inputs.digest,
    )
