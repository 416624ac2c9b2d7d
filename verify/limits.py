"""Limits: the bound of a case under the declared arithmetic, and what the judge learns of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from references.enclosure import FINITE
from verify.bounds import Bound, bound, joined
from verify.bounds.mean_rows import with_mean_rows
from verify.calling import Bench
from verify.case import Case, Inputs
from verify.errors import OracleError
from verify.formats import BINARY32
from verify.judge import Limits
from verify.kernel import Kernel
from verify.operation import Operation
from verify.presets import Preset
from verify.truth import Oracle, Truth, decomposed

Array = NDArray[np.float64]

# Above this many scores a bound is computed range by range, and neither grades nor the range of
# scores are.
MANY_SCORES = 2**22


def limit_of(
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


def scores_of(inputs: Inputs) -> int:
    """How many scores a case of attention has; 0 for a softmax."""
    if "q" not in inputs.tensors:
        return 0
    batch, heads, n_q, _ = inputs["q"].shape
    return batch * heads * n_q * inputs["k"].shape[2]


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
        flagged = flagged | (size + total > BINARY32.largest)  # 1.44 times the natural one
    excused = flagged if shifted else np.zeros_like(flagged)
    ignored = np.zeros_like(flagged)
    if truth.unspecified_lse is not None:
        ignored |= truth.unspecified_lse
    return Limits(total, total, flagged, excused, ignored, None)
