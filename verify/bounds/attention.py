"""Theorem 1: how far every output of attention may be from the exact one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from references.decompose import Decomposition
from verify.arithmetic import ArithmeticModel, TensorCore
from verify.bounds.accumulators import (
    AccumulationError,
    any_order,
    largest_finite,
    products_are_exact,
    subnormal_operands,
)
from verify.bounds.deviations import Deviations, deviations
from verify.bounds.exponentials import FIELDS, Exponentials, exponentials
from verify.bounds.folding import Rows, attention_rows
from verify.bounds.logsumexp import log_sum_exp_error
from verify.bounds.probabilistic import Spread, confidence, probable_error, weight_spread
from verify.bounds.row_sum import RowSumError, row_sum_error
from verify.bounds.running import running_outputs
from verify.bounds.scores import FIELDS as SCORE_FIELDS
from verify.bounds.scores import ScoreError, score_error
from verify.bounds.statement import STAGES, Array, Booleans, Bound, largest
from verify.bounds.weights import Weights, p_underflow, weights
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


# --- sharing between variants -----------------------------------------------------------------


@dataclass(frozen=True)
class Variant:
    """A model with the stages that it may share with others."""

    model: ArithmeticModel
    scores: ScoreError
    exps: Exponentials
    weights: Weights
    spread: Deviations
    moved: Array  # sum_j |w_j - p_j| |v_j - O|
    systematic: Array  # the same for the systematic errors


class Shared:
    """The variants of a block of rows; scores and exponentials are computed once for each kind."""

    def __init__(self, rows: Rows, models: Sequence[ArithmeticModel]) -> None:
        self._rows = rows
        self._models = models
        self._scores: dict[object, ScoreError] = {}
        self._exponentials: dict[object, Exponentials] = {}
        self._weights: dict[object, Weights] = {}

    def __iter__(self) -> Iterator[Variant]:
        rows = self._rows
        basis: list[Array] = [rows.p]
        found = []
        place: dict[int, tuple[int, int]] = {}
        extra: dict[int, int] = {}
        for model in self._models:
            exps = self._exponentials_of(model)
            w = self._weights_of(model, exps)
            if id(exps) not in place:
                place[id(exps)] = len(basis), len(basis) + 1
                basis += [exps.growth, rows.p * exps.systematic]
            if w.absolute is not None and id(w) not in extra:
                extra[id(w)] = len(basis)
                basis.append(w.absolute)
            found.append((model, exps, w))
        apart = deviations(rows, basis)
        for model, exps, w in found:
            growth, systematic = place[id(exps)]
            moved = w.scale * apart.sums[growth] + w.offset * apart.sums[0]
            if w.absolute is not None:
                moved = moved + apart.sums[extra[id(w)]]
            yield Variant(
                model, self._scores_of(model), exps, w, apart, moved, apart.sums[systematic]
            )

    def _exponentials_of(self, model: ArithmeticModel) -> Exponentials:
        key = tuple(getattr(model, name) for name in FIELDS)
        if key not in self._exponentials:
            self._exponentials[key] = exponentials(self._rows, model, self._scores_of(model))
        return self._exponentials[key]

    def _scores_of(self, model: ArithmeticModel) -> ScoreError:
        key = tuple(getattr(model, name) for name in SCORE_FIELDS)
        if key not in self._scores:
            self._scores[key] = score_error(self._rows, model)
        return self._scores[key]

    def _weights_of(self, model: ArithmeticModel, exps: Exponentials) -> Weights:
        names = (
            "p_format",
            "p_offset",
            "p_normalised",
            "flush_p",
            "row_sum",
            "row_sum_of",
            "flush_to_zero",
        )
        key = (id(exps), *(getattr(model, name) for name in names))
        if key not in self._weights:
            self._weights[key] = weights(self._rows, model, exps)
        return self._weights[key]


# --- one block of rows ------------------------------------------------------------------------


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


@dataclass(frozen=True)
class ProductError:
    """E and its parts; all (slabs, rows, d_v) or broadcastable."""

    error: Array
    variance: Array
    bias: Array
    kappa: Array
    flags: dict[str, Booleans]


def product_error(rows: Rows, variant: Variant, row_sum: RowSumError) -> ProductError:
    """
    E: rounding of P, accumulation of P V, rescales and merges, relative to the row sum.

    Shapes      returns (slabs, rows, d_v).
    Definition  B = min(sum_j largest_j |v_j|, max |v|).
    Guarantee   E = ((1+u_P)(1+u_c)^2 - 1) B + kappa (1+u_P)(1+u_c)^2 B + (1+kappa) absP + absA
                absP = sum over small P of min(eta_P / l', largest_j) |v_j|
                absA = (eta_pv + (R+S+6) eta) / l' + eta,  l' <= the row sum, 1 if normalised
    Requires    no flag O7, O8.
    Source      docs/theory/bounds.md, section 6.
    """
    model, w = variant.model, variant.weights
    absolute = np.abs(rows.values)
    mass = np.minimum(w.largest @ absolute, absolute.max(axis=1, initial=0.0, keepdims=True))
    rounded = _p_rounding(model, w)
    acc, merges = _accumulator(rows, variant)
    single = max(acc.unit, FORMATS[model.softmax_format].u) if merges else acc.unit
    kappa = (1 + acc.kappa) * (1 + single) ** merges - 1
    error, variance = kappa * (1 + rounded) * mass, acc.unit**2 * rows.count * mass**2
    if model.order == "sequential" and model.splits == 1:
        error, variance = _declared(rows, variant, acc, rounded, error)
    units = _units(rows, variant)
    lost = _small_p(rows, variant, units, absolute)
    lowest = (acc.eta + _unnormalised(rows, model, absolute)) * units
    lowest = lowest + _rescale_underflow(variant, merges) * units
    # the last quotient; those of normalised P are seen to in `_small_p`
    lowest = lowest + FORMATS[model.softmax_format].underflow_unit(flush=model.flush_to_zero)
    everything = rounded * mass + error + (1 + kappa) * lost + lowest
    in_p = 0.0 if w.in_p or not model.rounds_p else FORMATS[model.p_format].u
    variance = variance + in_p**2 * (rows.p**2 @ rows.values**2)
    variance = variance + acc.unit**2 * (variant.exps.rescales + merges) * mass**2
    bias = (rounded - in_p) * mass + (1 + kappa) * lost + lowest
    if acc.biased:
        bias = bias + error
    size = (1 + kappa) * (1 + rounded)
    final = size * mass if model.p_normalised else size * mass * row_sum.reach
    flags = _product_flags(rows, variant, final, size)
    return ProductError(everything, variance, bias, kappa, flags)


def _p_rounding(model: ArithmeticModel, w: Weights) -> float:
    """Relative error of P and of the converted operands, where it is not part of the weights."""
    growth = 1.0 if w.in_p or not model.rounds_p else 1 + FORMATS[model.p_format].u
    if model.convert:
        growth *= (1 + FORMATS[model.convert[0]].unit_roundoff(model.convert[1])) ** 2
    return growth - 1


def _accumulator(rows: Rows, variant: Variant) -> tuple[AccumulationError, int]:
    """The accumulator of P V, and how many more roundings the merge of parts adds."""
    model = variant.model
    left = model.convert[0] if model.convert else model.p_format
    right = model.convert[0] if model.convert else model.input
    acc = any_order(
        model.pv,
        rows.count,
        rows.n,
        exact_products=products_are_exact(model.pv, left, right),
        flush=model.flush_to_zero,
        # a normalised P is final, so that nothing is rescaled
        rescales=0.0 if model.p_normalised else variant.exps.rescales,
    )
    return acc, (model.splits + 6 if model.splits > 1 else 0)


def _declared(
    rows: Rows, variant: Variant, acc: AccumulationError, rounded: float, any_order: Array
) -> tuple[Array, Array]:
    """Running error of the partial sums of p_j v_j, plus what P differs from p."""
    model, w = variant.model, variant.weights
    left = model.convert[0] if model.convert else model.p_format
    right = model.convert[0] if model.convert else model.input
    exact = products_are_exact(model.pv, left, right)
    error, variance = running_outputs(rows, model.pv, exact)
    low = np.maximum(rows.p - w.lower(rows, variant.exps), 0.0)
    wrong = (1 + rounded) * w.largest - rows.p + 2 * low
    error = error + acc.kappa * (wrong @ np.abs(rows.values))
    rescales = np.expm1(variant.exps.rescales * math.log1p(acc.unit))
    mass = w.largest @ np.abs(rows.values)
    error = error + (1 + acc.kappa) * rescales * (1 + rounded) * mass
    return np.minimum(error, any_order), variance


def _units(rows: Rows, variant: Variant) -> Array:
    """1 / l': what an absolute error of the unnormalised sum is worth in the output."""
    if variant.model.p_normalised:
        return np.ones(rows.count.shape)
    exps, w = variant.exps, variant.weights
    least = rows.row_sum * w.least * np.exp(exps.log_c_lower)
    units = 1 / np.maximum(np.maximum(least, exps.least_sum), 1e-300)
    if variant.model.splits > 1:  # parts are merged with weights that err as well
        units = units * np.exp(np.minimum(exps.theta.max(axis=2, initial=0.0, keepdims=True), 50.0))
    return units


def _small_p(rows: Rows, variant: Variant, units: Array, absolute: Array) -> Array:
    """absP: what subnormal P lose."""
    small = variant.weights.small
    if small is None:
        return np.zeros(rows.output.shape)
    unit = p_underflow(variant.model)
    if variant.model.p_normalised:
        fmt = FORMATS[variant.model.softmax_format]
        unit += fmt.underflow_unit(flush=variant.model.flush_to_zero)
    lost = np.where(small, np.minimum(unit * units, variant.weights.largest), 0.0)
    return np.asarray(lost @ absolute)


def _unnormalised(rows: Rows, model: ArithmeticModel, absolute: Array) -> Array | float:
    """Subnormal operands of a tensor core in P V."""
    if not isinstance(model.pv, TensorCore):
        return 0.0
    top = 2.0**model.lazy * math.exp(min(model.max_offset, 300.0))
    name = model.convert[0] if model.convert else None
    left = FORMATS[name or model.p_format].smallest_normal * 2.0**-model.p_offset
    right = FORMATS[name or model.input].smallest_normal
    values = absolute.max(axis=1, initial=0.0, keepdims=True)
    return subnormal_operands(model.pv, rows.n, (left, np.array(top)), (right, values))


def _rescale_underflow(variant: Variant, merges: int) -> Array:
    fmt = FORMATS[variant.model.pv.format]
    wider = FORMATS[variant.model.softmax_format]
    unit = max(
        fmt.underflow_unit(flush=variant.model.flush_to_zero),
        wider.underflow_unit(flush=variant.model.flush_to_zero),
    )
    return np.asarray((variant.exps.rescales + merges) * unit)


def _early_reach(rows: Rows, variant: Variant, size: Array) -> Array:
    """
    Largest partial sum of P V over any set of keys, each relative to the maximum of that set.

    Shapes      size: growth by rounding, (slabs, rows, 1); returns (slabs, rows, d_v).
    Guarantee   at any time size sum_{j visited} P_j |v_j| <= the returned value: P_j is at most
                exp(log_largest) where it is formed, whatever its final probability, and a rescale
                by exp(m_old - m_new) does not enlarge it beyond that.
    Source      docs/theory/bounds.md, section 6 (O7).
    """
    absolute = np.abs(rows.values)
    each = size * np.exp(variant.exps.log_largest)
    most = np.asarray(each * rows.count * absolute.max(axis=1, initial=0.0, keepdims=True))
    if not (most > largest_finite(variant.model.pv)).any():
        return most  # nothing overflows by the coarser bound: the sum need not be formed
    return np.asarray(each * (rows.live @ absolute))


def _product_flags(rows: Rows, variant: Variant, final: Array, size: Array) -> dict[str, Booleans]:
    """O7 and O8; `final`: the largest sum relative to the final maximum; `size`: its growth."""
    model, tiled = variant.model, variant.exps.tiled(variant.model)
    reach = final
    if tiled.any() and not model.p_normalised:
        reach = np.where(tiled, np.maximum(final, _early_reach(rows, variant, size)), final)
    beyond = (reach > largest_finite(model.pv)).any(axis=2, keepdims=True)
    flags = {"O7": np.asarray(beyond)}
    if not model.p_normalised:
        top = model.p_offset * math.log(2) + variant.exps.stale
        if not model.shift:
            top = top + (rows.maximum + variant.exps.theta.max(axis=2, initial=0.0, keepdims=True))
        flags["O8"] = np.asarray(top > math.log(FORMATS[model.p_format].largest))
    return flags


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
