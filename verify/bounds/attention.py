"""Theorem 1: how far every output of attention may be from the exact one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from references.decompose import Decomposition
from verify.arithmetic import ArithmeticModel
from verify.bounds.folding import Rows, attention_rows
from verify.bounds.logsumexp import log_sum_exp_error
from verify.bounds.probabilistic import Spread, confidence, probable_error, weight_spread
from verify.bounds.products import ProductError, product_error
from verify.bounds.row_sum import RowSumError, row_sum_error
from verify.bounds.statement import STAGES, Array, Booleans, Bound, largest
from verify.bounds.variants import Shared, Variant
from verify.case import Inputs
from verify.formats import FORMATS
from verify.operation import Operation

# Covers the rounding of the formulas themselves, evaluated in float64 on quantities whose relative
# errors are below 2^-31 (docs/theory/bounds.md, section 10).
INFLATION = 1 + 2.0**-28
VACUOUS = 1e100  # a larger bound is +inf: no format holds such errors


def attention_bound_of_models(
    inputs: Inputs,
    operation: Operation,
    parts: Decomposition,
    models: Sequence[ArithmeticModel],
    probability: float,
) -> Bound:
    """
    The bound of attention under any of several models.

    Shapes      see `Bound`; parts: the decomposition of the same inputs and operation.
    Definition  O = sum_j p_j v_j and LSE, as in `references`.
    Guarantee   Theorem 1.  If the kernel follows one of the models and no flag is raised, then
                |O_hat - O| <= pre + max(u_out (|O| + pre), eta_out),
                pre = T + (1 + f) E + f (|O| + T), where
                T   error of the weights (`weight_error`), f error of the row sum and the division
                (`row_sum_error`), E rounding of P and accumulation of P V (`product_error`).
    Requires    what the model declares; the assumptions of the stages.
    Special     rows without keys: 0.  Elements that a NaN or an infinity reaches: flagged.
    Source      docs/theory/bounds.md, section 6.
    """
    place = _Assembly(parts)
    level = confidence(probability, parts.output.size)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for at, rows in attention_rows(inputs, operation, parts):
            variants = Shared(rows, models)
            place.add(at, rows, [rows_bound(rows, variant, level) for variant in variants])
    return place.bound()


@dataclass(frozen=True)
class RowsBound:
    """`Bound` for a block of rows, in folded shape; lse, lse_beyond (slabs, rows, 1); before: the
    error of the output before its last rounding."""

    total: Array
    before: Array
    probable: Array
    parts: dict[str, Array]
    lse: Array
    flags: dict[str, Booleans]
    row_flags: dict[str, Booleans]
    lse_beyond: Booleans  # the log-sum-exp may exceed the format in which it is returned


def weight_error(variant: Variant) -> Array:
    """
    T: how far the exact average over the computed weights is from O.

    Shapes      returns (slabs, rows, d_v).
    Definition  O~ = sum_j w_j v_j / sum_j w_j.
    Guarantee   |O~ - O| <= min(sum_j |w_j - p_j| |v_j - O| / sum_k w_k, max_j |v_j - O|):
                an error common to all weights cancels, and an average stays in the hull.
    Source      docs/theory/bounds.md, section 6, lemma 1.
    """
    return np.minimum(variant.moved / variant.weights.least, variant.spread.hull)


def rows_bound(rows: Rows, variant: Variant, level: float) -> RowsBound:
    """The stages put together."""
    model = variant.model
    row_sum = row_sum_error(rows, model, variant.exps, variant.weights)
    product = product_error(rows, variant, row_sum)
    moved = weight_error(variant)
    size = np.abs(rows.output) + rows.output_error
    factor = row_sum.factor
    parts = {
        "scores": moved,
        "row sum": factor * (size + moved),
        "P and PV": (1 + factor) * product.error,
    }
    before = parts["scores"] + parts["row sum"] + parts["P and PV"]
    fmt = FORMATS[model.output]
    parts["output rounding"] = np.maximum(
        fmt.u * (size + before), fmt.underflow_unit(flush=model.flushes_output)
    )
    total = (before + parts["output rounding"]) * INFLATION
    flags = {"O9": size + before >= fmt.overflow_threshold}
    lse = log_sum_exp_error(rows, model, variant.exps, variant.weights, row_sum, model.lse_format)
    spread = _spread(rows, variant, row_sum, product)
    probable = probable_error(rows, model, spread, total, level)
    beyond = np.abs(rows.lse) + lse >= FORMATS[model.lse_format].overflow_threshold
    rowwise = row_sum.flags | product.flags
    return RowsBound(total, before, probable, parts, lse * INFLATION, flags, rowwise, beyond)


def _spread(rows: Rows, variant: Variant, row_sum: RowSumError, product: ProductError) -> Spread:
    model, exps = variant.model, variant.exps
    variance, bias, relative = weight_spread(rows, exps, variant.weights, variant.systematic)
    total, other = FORMATS[model.row_sum.format].u, FORMATS[model.softmax_format].u
    added = np.maximum(rows.count - 1, 0) + exps.rescales
    if model.row_sum_order == "pairwise":
        added = np.minimum(added, math.log2(max(rows.n, 2)) + 1 + 2 * exps.rescales)
    sums = (total**2 * added + 2 * other**2) * rows.output**2
    if model.row_sum.mode != "RN":
        bias = bias + row_sum.factor * np.abs(rows.output)
    if variant.weights.absolute is not None:
        bias = bias + variant.weights.absolute_sum * variant.spread.hull
    return Spread(
        variance + sums + product.variance,
        bias + product.bias,
        relative + row_sum.kappa + product.kappa,
    )


# --- assembly ---------------------------------------------------------------------------------


class _Assembly:
    """Collects blocks of rows into one Bound."""

    def __init__(self, parts: Decomposition) -> None:
        self._parts = parts
        self._blocks: list[tuple[tuple[slice, slice], Bound]] = []

    def add(self, at: tuple[slice, slice], rows: Rows, bounds: Sequence[RowsBound]) -> None:
        self._blocks.append((at, largest([_finished(rows, found) for found in bounds])))

    def bound(self) -> Bound:
        names = sorted({name for _, b in self._blocks for name in b.flag_reasons})
        return Bound(
            total=self._joined(lambda b: b.total),
            probable=self._joined(lambda b: b.probable),
            flagged=self._joined(lambda b: b.flagged).astype(bool),
            flag_reasons={name: self._joined(_reason(name)) for name in names},
            parts={name: self._joined(_part(name)) for name in STAGES},
            lse=self._joined(lambda b: _rows_of(b.lse), per_row=True),
            lse_flagged=self._joined(lambda b: _rows_of(b.lse_flagged), per_row=True).astype(bool),
        )

    def _joined(self, pick: Callable[[Bound], NDArray[Any]], per_row: bool = False) -> NDArray[Any]:
        """Blocks put in their places, in the shape of the output or of its rows."""
        shape = self._parts.output.shape[:3] if per_row else self._parts.output.shape
        if not self._blocks:
            return np.zeros(shape)
        rows = max(at[1].stop for at, _ in self._blocks)
        slabs = max(at[0].stop for at, _ in self._blocks)
        some = pick(self._blocks[0][1])
        whole = np.zeros((slabs, rows, *shape[3:]), dtype=some.dtype)
        for at, found in self._blocks:
            whole[at] = pick(found)
        return whole.reshape(shape)


def _rows_of(x: NDArray[Any] | None) -> NDArray[Any]:
    assert x is not None
    return x


def _reason(name: str) -> Callable[[Bound], Booleans]:
    def pick(found: Bound) -> Booleans:
        return found.flag_reasons.get(name, np.zeros(found.total.shape, dtype=bool))

    return pick


def _part(name: str) -> Callable[[Bound], Array]:
    return lambda found: found.parts[name]


def _finished(rows: Rows, found: RowsBound) -> Bound:
    """Flags applied: total is +inf where the model promises nothing; empty rows give exact 0."""
    shape = rows.output.shape
    row_flags = found.row_flags | {"undefined": rows.broken_rows, "undecomposed": ~rows.known}
    reasons = {name: np.broadcast_to(flag, shape) for name, flag in row_flags.items()}
    reasons |= {name: np.broadcast_to(flag, shape) for name, flag in found.flags.items()}
    if rows.broken_values is not None:
        reasons["undefined"] = reasons["undefined"] | rows.broken_values
    kept = {name: flag & ~rows.empty for name, flag in reasons.items() if flag.any()}
    kept = {name: flag for name, flag in kept.items() if flag.any()}
    flagged = np.zeros(shape, dtype=bool)
    for flag in kept.values():
        flagged = flagged | flag
    lse_flagged = found.lse_beyond
    for name, flag in row_flags.items():
        if name not in ("O7", "O8", "O9"):
            lse_flagged = lse_flagged | flag
    lse_flagged = lse_flagged & ~rows.empty
    # not (x <= VACUOUS): what overflowed on the way promises nothing either
    total, probable = (
        np.where(flagged | ~(x <= VACUOUS), np.inf, np.where(rows.empty, 0.0, x))
        for x in (found.total, found.probable)
    )
    return Bound(
        total=total,
        probable=probable,
        flagged=flagged,
        flag_reasons=kept,
        parts={name: np.where(rows.empty, 0.0, part) for name, part in found.parts.items()},
        lse=np.where(lse_flagged | ~(found.lse <= VACUOUS), np.inf, found.lse)[..., 0],
        lse_flagged=lse_flagged[..., 0],
    )
