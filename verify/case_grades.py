"""Error over the bound of every reference contract in a case (contracts: `verify.grades`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from verify import grades
from verify.bounds import bound
from verify.calling import Bench, outputs_of
from verify.case import Case, Inputs
from verify.kernel import Kernel
from verify.limits import gives_mean
from verify.metrics import error_interval
from verify.operation import Operation, gradient_names
from verify.presets import Preset
from verify.truth import Truth
from verify.worker import Answer

Array = NDArray[np.float64]


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
