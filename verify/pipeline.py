"""The sentence: a case becomes inputs; kernel and oracle answer; error meets bound; a verdict.

    family -> case -> inputs -> truth ----------------\\
                        |                              > error -> verdict -> certificate
                        +-----> kernel -> output -----/             ^
                        +-----> arithmetic model -> bound ---------/
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from references.enclosure import FINITE, Enclosure
from verify import grades, packing
from verify.arithmetic import Preset
from verify.bounds import Bound, bound, joined
from verify.bounds.mean_rows import with_mean_rows
from verify.case import Case, Inputs
from verify.certificate import Finding, Record
from verify.errors import InconclusiveError, IntegrityError, KernelError, OracleError
from verify.evidence import WAYS
from verify.formats import BINARY32, FORMATS, Format
from verify.judge import Judgement, Limits, Verdict, judge, worst
from verify.kernel import Kernel
from verify.metrics import ErrorInterval, detectable, error_interval, measure, row_sum_defect
from verify.operation import PACKED, Operation, gradient_names
from verify.packing import packed, unpacked
from verify.truth import Oracle, Truth, decomposed
from verify.worker import Answer, Output

Array = NDArray[np.float64]

# Above this many scores a bound is computed range by range, and neither grades nor the range of
# scores are.
MANY_SCORES = 2**22
SMALL_OUTPUT = 16


class Runner(Protocol):
    """Whatever runs a kernel: a `Worker`, or outputs that were computed elsewhere."""

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
    ) -> Answer: ...


@dataclass(frozen=True)
class Bench:
    """What examines a kernel: an oracle, a runner, and memories of what was computed.

    layout    how the inputs lie in memory (see `verify.tensors_torch.LAYOUTS`), or `extras-` and
              the same for mask, bias and sinks only, or `filled`: fresh memory is filled with NaN,
              or `watched`: the answer tells of torch's operators
    bounds    bounds of the model that is being judged; forgotten from one kernel to the next
    limits    largest errors under the reference contracts (+inf where flagged), kept
    """

    oracle: Oracle
    runner: Runner
    device: str = "cpu"
    grading: bool = True
    layout: str = "contiguous"
    bounds: dict[Any, Bound] = field(default_factory=dict)
    limits: dict[Any, dict[str, Array]] = field(default_factory=dict)


def examine(case: Case, kernel: Kernel, bench: Bench) -> Record:
    """Judge one kernel on one case."""
    started = time.perf_counter()
    inputs = case.build()
    asked = kernel.resolve(case.operation, _head_dimension(inputs))
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
    limit = _limit(kernel, operation, inputs, kernel.models(case.format), bench)
    record = decide(case, kernel, operation, inputs, answer, truth, limit)
    if record.verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE) and record.check == "bound":
        surer = bench.oracle.confirm(operation, inputs, kernel.declaration)
        record = decide(case, kernel, operation, inputs, answer, surer, limit)
        if record.verdict is Verdict.FAIL:
            require_same_bound(case, kernel, operation, inputs, bench)
    if record.verdict is Verdict.FAIL and WAYS[kernel.way].repeatable:
        repeated = repeat(kernel, asked, inputs, answer, bench)
        record = replace(record, metrics={**record.metrics, "repeated": repeated})
    if answer.alias is not None and record.verdict is not Verdict.FAIL:
        reason = f"the output shares its memory with {answer.alias}"
        record = replace(record, verdict=Verdict.ERROR, check="alias", reason=reason)
    if scores_of(inputs) <= MANY_SCORES:
        record = replace(record, scores=score_range(operation, inputs, bench.oracle))
    if case.unrounded is not None:
        found = input_rounding(case, kernel, operation, truth, bench.oracle)
        record = replace(record, metrics={**record.metrics, "input_rounding": found})
    if bench.grading and scores_of(inputs) <= MANY_SCORES:
        graded = grade(case, kernel, operation, inputs, answer, truth, bench)
        record = replace(record, grades=graded)
    seconds = round(time.perf_counter() - started, 4)
    return replace(record, operation={"name": asked.name, **asked.options()}, seconds=seconds)


def require_same_bound(
    case: Case, kernel: Kernel, operation: Operation, inputs: Inputs, bench: Bench
) -> None:
    """A refutation rests on a bound that comes out the same when all of it is computed again.

    The same up to 2^-20: a matrix product may add in another order.

    Raises      OracleError where it does not: then nothing here is to be believed.
    """
    if scores_of(inputs) > MANY_SCORES:
        return
    models = kernel.models(case.format)
    limit = bound_of(operation, inputs, models, bench)
    again = bound(operation, inputs, decomposed(operation, inputs), models)
    pairs = [(limit.total, again.total), (1.0 * limit.flagged, 1.0 * again.flagged)]
    for name, other in limit.others.items():
        same = again.others[name]
        pairs += [(other.total, same.total), (1.0 * other.flagged, 1.0 * same.flagged)]
    if limit.lse is not None and again.lse is not None:
        pairs.append((limit.lse, again.lse))
    if not all(np.allclose(a, b, rtol=2.0**-20, atol=0.0, equal_nan=True) for a, b in pairs):
        raise OracleError(f"the bound of {case.id} differs when computed again: please report this")


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


def run(kernel: Kernel, operation: Operation, inputs: Inputs, bench: Bench) -> Answer:
    """Call the kernel with what its signature takes of the operation."""
    options = options_of(kernel, operation)
    shapes = output_shapes(kernel, operation, inputs)
    wanted = outputs_of(kernel, operation, inputs) if operation.backward else ()
    handed = packed(operation, inputs) if operation.name in PACKED else inputs
    answer = bench.runner.run(
        kernel.name, handed, options, shapes, device=bench.device, layout=bench.layout,
        wanted=wanted,
    )  # fmt: skip
    expected = output_format(kernel, _input_format(inputs))
    if answer.outputs[0].format is not expected:
        raise KernelError(f"returned {answer.outputs[0].format.name} instead of {expected.name}")
    return _unpacked(operation, answer) if operation.name in PACKED else answer


def _unpacked(operation: Operation, answer: Answer) -> Answer:
    bits = unpacked(operation, [out.bits for out in answer.outputs])
    outputs = zip(answer.outputs, bits, strict=True)
    return replace(answer, outputs=tuple(Output(out.format, b) for out, b in outputs))


def options_of(kernel: Kernel, operation: Operation) -> dict[str, Any]:
    """The keywords that a kernel is passed for an operation."""
    if not operation.is_attention:
        return {}
    options = {k: v for k, v in operation.options().items() if k in kernel.features}
    if "return_lse" in kernel.features and not operation.backward:
        options["return_lse"] = True
    return options


def outputs_of(kernel: Kernel, operation: Operation, inputs: Inputs) -> tuple[str, ...]:
    """The names of what the kernel returns, in order."""
    if operation.backward:
        without = kernel.declaration.without
        return tuple(n for n in gradient_names(operation.name, inputs.tensors) if n not in without)
    lse = operation.name == "attention" and "return_lse" in kernel.features
    return ("output", "lse") if lse else ("output",)


def output_shapes(
    kernel: Kernel, operation: Operation, inputs: Inputs
) -> list[tuple[tuple[int, ...], Format]]:
    """Shape and format of each output that the kernel must return."""
    if operation.backward:
        names = outputs_of(kernel, operation, inputs)
        return [(inputs[name[1:]].shape, inputs[name[1:]].format) for name in names]
    if operation.name in PACKED:
        fmt = output_format(kernel, inputs["q"].format)
        return packing.output_shapes(operation, inputs, fmt, "return_lse" in kernel.features)
    if operation.name != "attention":
        x = inputs["x"]
        shape = x.shape[:1] if operation.name in ("logsumexp", "cross_entropy") else x.shape
        return [(shape, output_format(kernel, x.format))]
    q, v = inputs["q"], inputs["v"]
    shapes = [((*q.shape[:3], v.shape[3]), output_format(kernel, q.format))]
    if "return_lse" in kernel.features:
        shapes.append((q.shape[:3], BINARY32))
    return shapes


def _limit(
    kernel: Kernel, operation: Operation, inputs: Inputs, models: Preset, bench: Bench
) -> Bound:
    """The bound, with rows that the kernel declares to be a mean of V held to that of a mean."""
    limit = bound_of(operation, inputs, models, bench)
    if not gives_mean(kernel, operation):
        return limit
    empty = bench.oracle.decomposition(operation, inputs).empty

    def again(operation: Operation, inputs: Inputs) -> Bound:
        return bound_of(operation, inputs, models, bench)

    return with_mean_rows(limit, empty, operation, inputs, again)


def gives_mean(kernel: Kernel, operation: Operation) -> bool:
    """Whether rows without keys are declared to be a mean of V."""
    return operation.name == "attention" and kernel.declaration.empty_row == "mean"


def output_format(kernel: Kernel, fmt: Format) -> Format:
    """The format that the declared arithmetic gives for inputs of a format."""
    return FORMATS[kernel.models(fmt).variants[0].output]


def bound_of(operation: Operation, inputs: Inputs, models: Preset, bench: Bench) -> Bound:
    """The bound of a case under a model; computed once."""
    key = (operation, inputs.digest, models)
    if key not in bench.bounds:
        bench.bounds[key] = _bound(operation, inputs, models, bench.oracle)
    return bench.bounds[key]


def _bound(operation: Operation, inputs: Inputs, models: Preset, oracle: Oracle) -> Bound:
    """The bound, computed for ranges of queries where all scores at once would fill the memory."""
    if scores_of(inputs) <= MANY_SCORES:
        return bound(operation, inputs, oracle.decomposition(operation, inputs), models)
    n_q, n_k = inputs["q"].shape[2], inputs["k"].shape[2]
    step = max(1, MANY_SCORES // (4 * n_k * inputs["q"].shape[0] * inputs["q"].shape[1]))
    parts = []
    for start in range(0, n_q, step):
        queries = (start, min(start + step, n_q))
        decomposition = oracle.decomposition(operation, inputs, queries)
        parts.append(bound(operation, inputs.of_queries(*queries), decomposition, models))
    return joined(parts)


def scores_of(inputs: Inputs) -> int:
    """How many scores a case of attention has; 0 for a softmax."""
    if "q" not in inputs.tensors:
        return 0
    batch, heads, n_q, _ = inputs["q"].shape
    return batch * heads * n_q * inputs["k"].shape[2]


@dataclass(frozen=True)
class Part:
    """One output of an answer with what decides about it.

    bound    that of this output, with its stages; None for the log-sum-exp
    """

    name: str
    output: Output
    truth: Enclosure
    limits: Limits
    bound: Bound | None

    def judgement(self) -> Judgement:
        error = error_interval(self.output.values, self.truth)
        return judge(self.output.values, self.truth, error, self.limits)


def parts_of(
    kernel: Kernel,
    operation: Operation,
    inputs: Inputs,
    answer: Answer,
    truth: Truth,
    limit: Bound,
) -> list[Part]:
    """The outputs of an answer, each with its truth and its limits."""
    shifted = all(m.shift for m in kernel.models(_input_format(inputs)).variants)
    if operation.backward:
        names = outputs_of(kernel, operation, inputs)
        return [
            _gradient(name, output, truth, limit, shifted)
            for name, output in zip(names, answer.outputs, strict=True)
        ]
    limits = output_limits(limit, truth, shifted)
    parts = [Part("output", answer.outputs[0], truth.output, limits, limit)]
    if truth.lse is not None and len(answer.outputs) > 1:
        limits = lse_limits(limit, truth, kernel, shifted)
        parts.append(Part("lse", answer.outputs[1], truth.lse, limits, None))
    return parts


def _reached(name: str, rows: NDArray[np.bool_], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Elements of a gradient that unspecified rows (batch, heads, n_q) reach: dQ of the row, dK and
    dV of its kv head, and all of what is shared by heads or batches."""
    if name == "dq":
        return np.broadcast_to(rows[..., None], shape)
    if name in ("dk", "dv"):
        batch, kv_heads = shape[:2]
        grouped = np.asarray(rows.reshape(batch, kv_heads, -1).any(axis=2))
        return np.broadcast_to(grouped[..., None, None], shape)
    return np.full(shape, bool(rows.any()))


def _gradient(name: str, output: Output, truth: Truth, limit: Bound, shifted: bool) -> Part:
    """A gradient; a missing shift excuses nothing (see `output_limits`)."""
    bound = limit.others.get(name, limit)
    excused = bound.flagged if shifted else np.zeros_like(bound.flagged)
    ignored = np.zeros_like(bound.flagged)
    if truth.unspecified is not None:
        ignored |= _reached(name, truth.unspecified, ignored.shape)
    signal = truth.magnitudes.get(name)
    limits = Limits(bound.total, bound.probable, bound.flagged, excused, ignored, signal)
    return Part(name, output, truth.gradients[name], limits, bound)


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
        reason=_reason(verdict, judgement, part.name),
        check=judgement.check,
        operation={"name": operation.name, **operation.options()},
        notes=dict(case.notes),
        shape={k: tuple(t.shape) for k, t in inputs.tensors.items()},
        digest=inputs.digest,
        tightness=max(j[-1].tightness for j in judged),
        median_tightness=judged[0][-1].median_tightness,
        counts=_add([j[-1].counts for j in judged]),
        metrics=metrics,
        stages=_stages(part.bound, judgement) if part.bound else {},
        finding=finding,
        sample=sample(output, truth.output),
        tier=truth.tier,
    )


def _power(part: Part, error: ErrorInterval) -> dict[str, Any]:
    """The smallest uniform relative error that this case would refute, and would mark SUSPECT."""
    use = ~(part.limits.flagged | part.limits.ignored)
    return {
        "refutes_from": detectable(part.limits.bound, error, part.truth, use),
        "suspects_from": detectable(part.limits.probable, error, part.truth, use),
    }


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


def output_limits(limit: Bound, truth: Truth, shifted: bool) -> Limits:
    """What the judge learns of the bound of the output.

    A missing shift never excuses an output that is not finite: its flags take elements out of the
    bound's scope, not out of the property that finite truth gives finite output.
    """
    flagged = limit.flagged
    excused = flagged if shifted else np.zeros_like(flagged)
    ignored = np.zeros_like(flagged)
    if truth.unspecified is not None:
        ignored |= truth.unspecified[..., None]
    return Limits(limit.total, limit.probable, flagged, excused, ignored, truth.magnitude)


def lse_limits(limit: Bound, truth: Truth, kernel: Kernel, shifted: bool) -> Limits:
    """The same for the log-sum-exp; in base 2 the bound is divided by ln 2, plus two roundings."""
    assert limit.lse is not None
    assert limit.lse_flagged is not None
    assert truth.lse is not None
    total, flagged = limit.lse, limit.lse_flagged
    if kernel.declaration.lse_base == "2":
        size = np.where(truth.lse.classes == FINITE, np.abs(truth.lse.hi), 0.0)
        total = (total * 1.4427 + 2 * BINARY32.u * size) * (1 + 2.0**-30)
    excused = flagged if shifted else np.zeros_like(flagged)
    ignored = np.zeros_like(flagged)
    if truth.unspecified_lse is not None:
        ignored |= truth.unspecified_lse
    return Limits(total, total, flagged, excused, ignored, None)


def grade(
    case: Case,
    kernel: Kernel,
    operation: Operation,
    inputs: Inputs,
    answer: Answer,
    truth: Truth,
    bench: Bench,
) -> dict[str, float | None]:
    """Error over the bound of every reference contract (> 1: refuted; None: nothing was judged).

    Of the log-sum-exp no contract speaks; of gradients the worst counts.  Contracts are about
    arithmetic: rows that the kernel declares to mean something else are left out.
    """
    enclosures = truth.enclosures()
    declared = _rows_of_its_own(kernel, operation, inputs, truth, bench)
    names = [name for name in outputs_of(kernel, operation, inputs) if name != "lse"]
    ratios: dict[str, float | None] = {}
    for contract in grades.contracts(case.format):
        found = []
        for name, out in zip(names, answer.outputs, strict=False):
            enclosure = enclosures[name]
            error = error_interval(out.values, enclosure)
            usable = error.comparable & enclosure.finite
            if declared is not None and name == "output":
                usable &= ~declared[..., None]
            about_output = grades.limits(contract, enclosure, out.format)
            if about_output is not None:
                limit = about_output[0]
            else:
                assert contract.models is not None
                limit = contract_limit(operation, inputs, contract.models, bench)[name]
            found.append(_largest_ratio(error.upper, limit, usable & np.isfinite(limit)))
        known = [ratio for ratio in found if ratio is not None]
        ratios[contract.letter] = max(known) if known else None
    return ratios


def _rows_of_its_own(
    kernel: Kernel, operation: Operation, inputs: Inputs, truth: Truth, bench: Bench
) -> NDArray[np.bool_] | None:
    """Rows of attention without keys, where the kernel declares their mean, and those of which it
    declares nothing; None where there is none."""
    if operation.name != "attention":
        return None
    rows = truth.unspecified
    if gives_mean(kernel, operation):
        empty = bench.oracle.decomposition(operation, inputs).empty
        rows = empty if rows is None else rows | empty
    return rows


def contract_limit(
    operation: Operation, inputs: Inputs, models: Preset, bench: Bench
) -> dict[str, Array]:
    """The bounds of a reference contract by output, +inf where it promises nothing; kept."""
    key = (operation, inputs.digest, models.name)
    if key not in bench.limits:
        found = bound(operation, inputs, bench.oracle.decomposition(operation, inputs), models)
        names: tuple[str, ...] = ("output",)
        if operation.backward:
            names = gradient_names(operation.name, inputs.tensors)
        bench.limits[key] = {
            name: np.where(b.flagged, np.inf, b.total)
            for name, b in {names[0]: found, **found.others}.items()
        }
    return bench.limits[key]


def _largest_ratio(upper: Array, total: Array, usable: NDArray[np.bool_]) -> float | None:
    if not usable.any():
        return None
    e, b = upper[usable], total[usable]
    ratio = np.where(b > 0, e / np.where(b > 0, b, 1.0), np.where(e > 0, np.inf, 0.0))
    return float(ratio.max())


def find(part: Part, upper: Array, judgement: Judgement) -> Finding | None:
    """The deciding element, in decimal, hex and bits."""
    if judgement.index is None:
        return None
    out, truth = part.output, part.truth
    at = np.unravel_index(judgement.index, out.shape)
    value, hi, lo = float(out.values[at]), float(truth.hi[at]), float(truth.lo[at])
    finite = bool(truth.classes[at] & FINITE)
    ulp = float(out.format.ulp(np.asarray(hi), np.asarray(lo))) if finite else None
    error = float(upper[at])
    return Finding(
        output=part.name,
        index=tuple(int(i) for i in at),
        value=repr(value),
        value_bits=out.format.hex(int(out.bits[at])),
        value_hex=value.hex(),
        truth=decimal(hi, lo),
        truth_hi=hi.hex(),
        truth_lo=lo.hex(),
        truth_radius=float(truth.radius[at]) if finite else None,
        error=error if np.isfinite(value) and finite else None,
        bound=float(part.limits.bound[at]),
        ulps=error / ulp if ulp and np.isfinite(error) else None,
        stage=_dominant(part.bound, at) if part.bound else None,
    )


def sample(out: Output, truth: Enclosure) -> tuple[tuple[str, str], ...]:
    """(value, truth) of every element of a small output, in order."""
    if out.bits.size > SMALL_OUTPUT:
        return ()
    rows = zip(out.values.flat, truth.hi.flat, truth.lo.flat, strict=True)
    return tuple((repr(float(v)), decimal(float(hi), float(lo))) for v, hi, lo in rows)


def decimal(hi: float, lo: float) -> str:
    """hi + lo to 30 significant digits."""
    if not np.isfinite(hi):
        return repr(hi)
    with localcontext() as context:
        context.prec = 400
        total = Decimal(hi) + Decimal(lo)
        context.prec = 30
        return str(+total)


def _dominant(limit: Bound, at: Any) -> str | None:
    values = {name: float(part[at]) for name, part in limit.parts.items()}
    return max(values, key=lambda name: values[name]) if values else None


def _stages(limit: Bound, judgement: Judgement) -> dict[str, float]:
    if judgement.index is None:
        return {}
    values = {name: float(p.flat[judgement.index]) for name, p in limit.parts.items()}
    total = sum(values.values())
    if not total > 0 or not np.isfinite(total):
        return {}
    return {name: value / total for name, value in values.items()}


def _reason(verdict: Verdict, judgement: Judgement, output: str) -> str:
    counts = judgement.counts
    if verdict is Verdict.FAIL and judgement.check == "bound":
        return f"{output}: {counts['failed']} of {counts['elements']} elements beyond the bound"
    if verdict is Verdict.FAIL and judgement.check == "finite":
        return f"{output}: not finite where the truth is finite"
    if verdict is Verdict.FAIL:
        return f"{output}: NaN or infinity missing, or of the wrong kind, where the truth has it"
    if verdict is Verdict.INCONCLUSIVE:
        return f"{output}: the enclosure of {counts['inconclusive']} elements contains the bound"
    if verdict is Verdict.OUT_OF_SCOPE:
        return _out_of_scope(judgement)
    return ""


def _out_of_scope(judgement: Judgement) -> str:
    """Why nothing of a case was judged."""
    if judgement.vacuous:
        return "vacuous: the bound exceeds the signal"
    if judgement.counts["unspecified"] == judgement.counts["flagged"]:
        return "the kernel declares nothing about these rows: anything is accepted"
    return "overflow permitted"


def _add(counts: list[dict[str, int]]) -> dict[str, int]:
    return {key: sum(c[key] for c in counts) for key in counts[0]}


def _head_dimension(inputs: Inputs) -> int | None:
    return inputs["q"].shape[3] if "q" in inputs.tensors else None


def _input_format(inputs: Inputs) -> Format:
    return inputs["q" if "q" in inputs.tensors else "x"].format


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
