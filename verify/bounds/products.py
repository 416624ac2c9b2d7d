"""Products: rounding of P and accumulation of P V, the term E of Theorem 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from verify.arithmetic import ArithmeticModel, TensorCore
from verify.bounds.accumulators import (
    AccumulationError,
    any_order,
    largest_finite,
    products_are_exact,
    subnormal_operands,
)
from verify.bounds.folding import Rows
from verify.bounds.row_sum import RowSumError
from verify.bounds.running import running_outputs
from verify.bounds.statement import Array, Booleans
from verify.bounds.variants import Variant
from verify.bounds.weights import Weights, p_underflow
from verify.formats import FORMATS


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
