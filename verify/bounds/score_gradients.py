"""dS: how far the gradient of every score may be from the exact one (theorem B2)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from verify.arithmetic import ArithmeticModel, Chain
from verify.bounds.accumulators import any_order, largest_finite, products_are_exact
from verify.bounds.attention import RowsBound
from verify.bounds.backward_probabilities import BackwardP
from verify.bounds.folding import Rows
from verify.bounds.scores import score_error
from verify.bounds.statement import Array, Booleans
from verify.bounds.variants import Variant
from verify.formats import FORMATS

_U = 2.0**-52  # of the float64 in which the exact quantities are formed, with room


@dataclass(frozen=True)
class ScoreGradients:
    """
    dS and its error for a block of rows.

    Shapes      value, before, error and every part (slabs, rows, n); n counts the sink.
    Definition  dP = dO V^T, D = sum_c dO_c O_c, dS = p (dP - D); after a softcap times
                1 - tanh^2 (`capped`), which is what dQ and dK are made of.
    Guarantee   |dS_hat - dS| <= before, the gradient with respect to the finished score (dbias,
                dsinks); |dX_hat - capped| <= error, as it enters dQ and dK
    by_p, by_d  the shares of `error` that are due to P, and to dP and D
    """

    value: Array
    before: Array
    capped: Array
    error: Array
    by_p: Array
    by_d: Array
    flags: dict[str, Booleans]


@dataclass(frozen=True)
class _Upstream:
    """dP (slabs, rows, n) and D (slabs, rows, 1) with the bounds of their errors."""

    dp: Array
    dp_error: Array
    d: Array
    d_error: Array
    slack: Array  # of dP - D as it is known here
    flags: dict[str, Booleans]


def score_gradients(
    rows: Rows, variant: Variant, forward: RowsBound, p: BackwardP, do: Array
) -> ScoreGradients:
    """
    Error of dS.

    Shapes      do (slabs, rows, d_v); see `ScoreGradients`.
    Definition  g = dP - D, e_g = E_dP + E_D, e_P = p.error; m further roundings.
    Guarantee   E_dP    kappa_dP sum_c |dO_c| |V_c| + eta, stored max(u (|dP| + .), eta) more
                E_D     'output': sum_c |dO_c| e_O + kappa_D sum_c |dO_c| (|O_c| + e_O) + eta
                        'probabilities': sum_k e_P |dP_k - D| + |D| |sum P_hat - 1|
                        + sum_k (p_k + e_P) E_dP + kappa_n sum_k (p_k + e_P)(|dP_k| + E_dP) + n eta
                dS      'difference' (1+u)((p + e_P)((1+u) e_g + u |g|) + e_P |g|) + u p |g| + eta
                        'products' (1+u)((p + e_P) e_g + e_P |g| + u (p + e_P)(|dP| + |D| + e_g)
                        + 2 eta) + u p |g| + eta
                softcap (|dS| + E) e_h + h E and one rounding, e_h = 2 t e_t + e_t^2 + 3u
                stored  max(u (|dX| + E), eta) more, once or as often as the model says
    Requires    no flag of the forward pass, and none of G1, G2.
    Special     0 where not live.
    Source      docs/theory/bounds.md, section 14.2.
    """
    model = variant.model
    up = _upstream(rows, variant, forward, p, do)
    g = np.where(rows.live, up.dp - up.d, 0.0)
    size = np.abs(g)
    by_p = p.error * size
    by_d = (rows.p + p.error) * (up.dp_error + up.d_error + up.slack)
    before = np.where(rows.live, _product(rows, variant, p, up, size, by_p, by_d), 0.0)
    value = rows.p * g
    capped, error = value, before
    if rows.softcap is not None:
        slope, wrong = _cap_slope(rows, model)
        u, eta = _softmax_unit(model)
        error = (1 + u) * ((np.abs(value) + before) * wrong + slope * before)
        error = np.where(rows.live, error + u * np.abs(value) * slope + 2 * eta, 0.0)
        capped, by_p, by_d = value * slope, by_p * slope, by_d * slope
    error, flags = _stored(rows, model, capped, error, up.flags)
    return ScoreGradients(value, before, capped, error, by_p, by_d, flags)


def _softmax_unit(model: ArithmeticModel) -> tuple[float, float]:
    fmt = FORMATS[model.softmax_format]
    return fmt.u, fmt.underflow_unit(flush=model.flush_to_zero)


def roundings(rows: Rows, variant: Variant) -> Array:
    """Further roundings of every term: those declared, and rescales that are differentiated."""
    more = np.full(rows.count.shape, float(variant.model.more_roundings))
    if variant.model.backward_p != "lse" and not variant.model.p_normalised:
        more = more + variant.exps.rescales
    return more


def tile_underflow(variant: Variant, stored: float) -> Array | float:
    """
    Absolute error of a term e_tile (dO times rescale factors), for kernels whose rescales are
    differentiated: the factors multiply dO before dP is formed, so that what underflows there is
    multiplied by the exponential of the tile, at most L, and not by p.

    Guarantee   (stored + (R + 3) eta) L where R > 0, else 0; L = `log_largest`.
    Source      docs/theory/bounds.md, section 14.2.
    """
    model = variant.model
    if model.backward_p == "lse" or model.p_normalised:
        return 0.0
    _, eta = _softmax_unit(model)
    rescales = variant.exps.rescales
    each = (stored + (rescales + 3) * eta) * np.exp(variant.exps.log_largest)
    return np.where(rescales > 0, each, 0.0)


def _upstream(
    rows: Rows, variant: Variant, forward: RowsBound, p: BackwardP, do: Array
) -> _Upstream:
    model = variant.model
    u, eta = _softmax_unit(model)
    growth = (1 + u) ** roundings(rows, variant)
    values = np.swapaxes(rows.values, 1, 2)
    d_v = do.shape[2]
    # what lies behind a mask takes no part, however large it is
    dp = np.where(rows.live, do @ values, 0.0)
    size = np.where(rows.live, np.abs(do) @ np.abs(values), 0.0)
    acc = any_order(
        model.gradients,
        np.array(d_v),
        d_v,
        exact_products=products_are_exact(model.gradients, model.input, model.input),
        flush=model.flush_to_zero,
    )
    converted = 1.0
    if model.convert:
        converted = (1 + FORMATS[model.convert[0]].unit_roundoff(model.convert[1])) ** 2
    kappa = (1 + acc.kappa) * converted * growth - 1
    dp_error = kappa * size + (acc.eta + eta) * p.units
    beyond = np.zeros(rows.count.shape, bool)
    if model.dp_format is not None:
        fmt = FORMATS[model.dp_format]
        stored = rows.live & (np.abs(dp) + dp_error >= fmt.overflow_threshold)
        beyond = np.any(stored, axis=2, keepdims=True)
        # where P is normalised dP is stored before it is divided by the row sum
        lost = fmt.underflow_unit() * (1.0 if model.p_normalised else p.units)
        dp_error = dp_error + np.maximum(fmt.u * (np.abs(dp) + dp_error), lost)
    d, d_error, reach, slack = _delta(rows, variant, forward, p, do, dp, dp_error)
    over = ((1 + kappa) * size > largest_finite(model.gradients)).any(axis=2, keepdims=True)
    over = over | beyond | (reach > FORMATS[model.softmax_format].largest)
    return _Upstream(
        dp, dp_error, d, d_error, (d_v + 4) * _U * size + slack, p.flags | {"G1": over | _g1(p)}
    )


def _g1(p: BackwardP) -> Booleans:
    return np.asarray(p.flags.get("G1", np.zeros(p.total_error.shape, bool)))


def _delta(
    rows: Rows,
    variant: Variant,
    forward: RowsBound,
    p: BackwardP,
    do: Array,
    dp: Array,
    dp_error: Array,
) -> tuple[Array, Array, Array, Array]:
    """(D, its error, the largest partial sum, what D is not known to here), all per row."""
    model = variant.model
    u, eta = _softmax_unit(model)
    more = (1 + u) ** roundings(rows, variant)
    chain = Chain(model.softmax_format)
    size, output = np.abs(do), np.abs(rows.output)
    d = (do * rows.output).sum(axis=2, keepdims=True)
    slack = (size * (rows.output_error + (do.shape[2] + 4) * _U * output)).sum(
        axis=2, keepdims=True
    )
    if model.delta == "output":
        wrong = _stored_output_error(variant, forward, output)
        exact = products_are_exact(chain, model.input, model.delta_format or model.output)
        acc = any_order(chain, np.array(do.shape[2]), do.shape[2], exact_products=exact)
        kappa = (1 + acc.kappa) * more - 1
        reach = (size * (output + wrong)).sum(axis=2, keepdims=True)
        error = (size * wrong).sum(axis=2, keepdims=True) + kappa * reach
        return d, error + (do.shape[2] + 1) * eta * p.units, (1 + kappa) * reach, slack
    acc = any_order(chain, rows.count, rows.n, exact_products=False)
    kappa = (1 + acc.kappa) * more - 1
    weight = np.where(rows.live, rows.p + p.error, 0.0)
    reach = (weight * (np.abs(dp) + dp_error)).sum(axis=2, keepdims=True)
    moved = (p.error * np.abs(dp - d)).sum(axis=2, keepdims=True) + np.abs(d) * p.total_error
    error = moved + (weight * dp_error).sum(axis=2, keepdims=True) + kappa * reach
    return d, error + rows.n * eta * p.units, (1 + kappa) * reach, slack


def _stored_output_error(variant: Variant, forward: RowsBound, output: Array) -> Array:
    """e_O: the error of O in the format in which it enters D."""
    model = variant.model
    before = forward.before
    fmt = FORMATS[model.delta_format or model.output]
    flush = model.flushes_output
    return np.asarray(
        before + np.maximum(fmt.u * (output + before), fmt.underflow_unit(flush=flush))
    )


def _product(
    rows: Rows,
    variant: Variant,
    p: BackwardP,
    up: _Upstream,
    size: Array,
    by_p: Array,
    by_d: Array,
) -> Array:
    """Error of P (dP - D), or of P dP - P D."""
    model = variant.model
    u, least = _softmax_unit(model)
    weight = rows.p + p.error
    eta = least * (2 + weight * p.units)
    if model.ds_form == "difference":
        error = (1 + u) * ((1 + u) * by_d + u * weight * size + by_p) + u * rows.p * size + eta
    else:
        whole = np.abs(up.dp) + np.abs(up.d) + up.dp_error + up.d_error
        error = (1 + u) * (by_d + by_p + u * weight * whole + 2 * eta) + u * rows.p * size + eta
    stored = 0.0 if model.dp_format is None else FORMATS[model.dp_format].underflow_unit()
    error = error + tile_underflow(variant, stored)
    growth = (1 + u) ** roundings(rows, variant)
    return np.asarray(growth * error + (growth - 1) * rows.p * size)


def _cap_slope(rows: Rows, model: ArithmeticModel) -> tuple[Array, Array]:
    """1 - tanh^2 of the exact argument, and the error of the computed one."""
    cap, fmt = float(rows.softcap or 0.0), FORMATS[model.softmax_format]
    u, eta = fmt.u, fmt.underflow_unit(flush=model.flush_to_zero)
    bare = replace(rows, softcap=None, bias=None, score=rows.uncapped)
    x = score_error(bare, replace(model, stores="last", stored_scores=None))
    argument = rows.uncapped / cap
    wrong = x.delta
    if model.stored_scores is not None and model.stores == "each":
        kept = FORMATS[model.stored_scores]  # product, scale and quotient are stored
        lost = 3 * np.maximum(kept.u * (rows.uncapped + wrong), kept.underflow_unit())
        wrong = (1 + 3 * kept.u) * (wrong + lost)
        u = kept.u
    shift = ((1 + u) ** 3 * wrong + ((1 + u) ** 3 - 1) * rows.uncapped) / cap + 2 * eta
    near = np.maximum(argument - shift, 0.0)
    lipschitz = 1 / np.cosh(np.minimum(near, 350.0)) ** 2
    tanh = np.tanh(argument)
    # tanh, its product with the cap, and the quotient by it again
    inner = (1 + 2 * model.tanh_ulps * fmt.u) * (1 + u) ** 4 - 1
    off = np.minimum(lipschitz * shift * (1 + inner), 2.0) + inner * tanh + 3 * eta
    off += model.tanh_absolute * (1 + u) ** 4
    slope = 1 / np.cosh(np.minimum(argument, 350.0)) ** 2
    error = 2 * tanh * off + off**2 + 3 * u * (1 + (tanh + off) ** 2) + 2 * eta
    return slope, np.asarray(error)


def _stored(
    rows: Rows, model: ArithmeticModel, value: Array, error: Array, flags: dict[str, Booleans]
) -> tuple[Array, dict[str, Booleans]]:
    """After being written in ds_format."""
    name = model.ds_format or model.p_format
    if name == model.softmax_format:
        return error, flags
    fmt = FORMATS[name]
    size = np.abs(value)
    # a scale that is applied before leaves less room below, one above 1 less above
    before = model.gradient_scale == "operands"
    small = max(1.0, 1 / rows.scale) if before and rows.scale > 0 else 1.0
    large = max(1.0, rows.scale) if before else 1.0
    # a softcap that is differentiated step by step stores twice more
    capped = 2 if rows.softcap is not None and model.ds_roundings > 1 else 0
    for _ in range(model.ds_roundings + capped):
        lost = np.maximum(fmt.u * (size + error), fmt.underflow_unit() * small)
        error = error + np.where(rows.live, lost, 0.0)
    over = (rows.live & (large * (size + error) >= fmt.overflow_threshold)).any(
        axis=2, keepdims=True
    )
    return error, flags | {"G2": np.asarray(over)}
