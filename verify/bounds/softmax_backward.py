"""Gradients of softmax and log_softmax: how far every element may be from the exact one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from references.decompose import Decomposition
from verify.arithmetic import ArithmeticModel, Chain
from verify.bounds.accumulators import any_order
from verify.bounds.attention import INFLATION, VACUOUS
from verify.bounds.softmax import softmax_bound_of_models
from verify.bounds.statement import GRADIENT_STAGES, Array, Booleans, Bound, largest
from verify.case import Inputs
from verify.formats import FORMATS
from verify.operation import OperationName

_U = 2.0**-52


def softmax_backward_bound_of_models(
    name: OperationName,
    inputs: Inputs,
    parts: Decomposition,
    models: Sequence[ArithmeticModel],
) -> Bound:
    """
    The bound of dx under any of several models.

    Shapes      dy, x and total: (rows, n); parts: `decompose_softmax(x)`.
    Definition  softmax: dx_j = p_j (dy_j - sum_k p_k dy_k); log_softmax: dx_j = dy_j - p_j sum_k
                dy_k.
    Guarantee   Theorem 4.  |dx_hat - dx| <= `_of_softmax` or `_of_log_softmax`, one rounding to the
                output included.
    Requires    the forward output is kept as the model stores it (`output`) and P is made of it:
                itself, or its exponential.
    Special     rows that the forward bound flags are flagged.
    Source      docs/theory/bounds.md, section 14.4.
    """
    dy, p = inputs["dy"].values, parts.p[0, 0]
    make = _of_softmax if name == "softmax_backward" else _of_log_softmax
    forward: OperationName = "softmax" if name == "softmax_backward" else "log_softmax"
    bounds = []
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for model in _distinct(models):
            known = softmax_bound_of_models(forward, parts, [model])
            row = _Row(model, p, dy, known.total, parts.visible[0, 0])
            bounds.append(_finished(row, make(row), known))
    return largest(bounds)


def _distinct(models: Sequence[ArithmeticModel]) -> list[ArithmeticModel]:
    """The models without what only attention has, each once."""
    return list(
        dict.fromkeys(
            replace(
                model, p_format=model.softmax_format, ds_format=model.softmax_format,
                row_sum_of="unrounded", p_normalised=True, qk=Chain(), pv=Chain(),
                gradients=Chain(), group_format=None, gradient_block=None, bias_format=None,
                backward_p="apart" if model.backward_p == "apart" else "kept",
            )
            for model in models
        )
    )  # fmt: skip


@dataclass(frozen=True)
class _Row:
    """All of one call: p, dy and the forward error (rows, n)."""

    model: ArithmeticModel
    p: Array
    dy: Array
    forward: Array
    live: Booleans


@dataclass(frozen=True)
class _Found:
    """Error before the last rounding, its shares, and |dx|."""

    value: Array
    error: Array
    by_p: Array
    by_sum: Array
    reach: Array  # upper bound of the partial sums over a row


def _lost(row: _Row, eta: float) -> float:
    """What underflows in a sum over a row: n terms, in units of l (at most 2 n) where e and l are
    kept apart, twice because the terms may be divided by l twice."""
    n = row.p.shape[1]
    return float(n * eta * (4 * n if row.model.backward_p == "apart" else 1))


def _units(row: _Row) -> tuple[float, float, Array, float]:
    """u and eta of the softmax's format, kappa of a sum over a row, further roundings."""
    fmt = FORMATS[row.model.softmax_format]
    n = row.p.shape[1]
    chain = Chain(row.model.softmax_format)
    kappa = any_order(chain, np.array(n), n, exact_products=False).kappa
    growth = (1 + fmt.u) ** row.model.more_roundings
    eta = fmt.underflow_unit(flush=row.model.flush_to_zero)
    return fmt.u, eta, (1 + kappa) * growth - 1, growth


def _of_softmax(row: _Row) -> _Found:
    """
    e_P = the forward error; D = sum p dy:
    E_D = sum e_P |dy - D| + |D| |sum P_hat - 1| + kappa sum (p + e_P)|dy| + n eta, and then as dS
    in `score_gradients` with E_dP = 0.
    """
    u, eta, kappa, growth = _units(row)
    n = row.p.shape[1]
    wrong = np.where(row.live, row.forward, 0.0)
    weight = row.p + wrong
    d = (row.p * row.dy).sum(axis=1, keepdims=True)
    size = np.abs(row.dy)
    slack = (n + 4) * _U * (row.p * size).sum(axis=1, keepdims=True) + 2.0**-31 * np.abs(d)
    total = wrong.sum(axis=1, keepdims=True)
    reach = (weight * size).sum(axis=1, keepdims=True)
    d_error = (wrong * (np.abs(row.dy - d) + slack)).sum(axis=1, keepdims=True)
    d_error = d_error + (np.abs(d) + slack) * total + kappa * reach + _lost(row, eta) + slack
    g = np.abs(row.dy - d)
    by_p, by_sum = wrong * g, weight * d_error
    if row.model.ds_form == "difference":
        error = (1 + u) * ((1 + u) * by_sum + u * weight * g + by_p) + u * row.p * g + 3 * eta
    else:
        whole = size + np.abs(d) + d_error
        error = (1 + u) * (by_sum + by_p + u * weight * whole + 2 * eta) + u * row.p * g + eta
    error = growth * error + (growth - 1) * row.p * g
    return _Found(row.p * g, error, by_p, by_sum, (1 + kappa) * reach)


def _of_log_softmax(row: _Row) -> _Found:
    """
    P = exp(y), |y_hat - y| <= theta, the forward error: e_P = p (e^theta (1 + eps) - 1) + eta;
    S = sum dy, E_S = kappa sum |dy| + n eta:
    (1+u)((p + e_P) E_S + e_P |S| + u (p + e_P)(|S| + E_S) + eta) + u |dx|.
    """
    u, eta, kappa, _ = _units(row)
    n = row.p.shape[1]
    theta = np.where(row.live, np.minimum(row.forward, 300.0), 0.0)
    flush = FORMATS[row.model.softmax_format].underflow_unit(flush=True)
    by_p = row.p * (np.expm1(theta) * (1 + row.model.exp_error) + row.model.exp_error) + flush
    by_p = np.where(row.live, by_p, 0.0)
    s = np.abs(row.dy.sum(axis=1, keepdims=True))
    size = np.abs(row.dy).sum(axis=1, keepdims=True)
    s_error = (kappa + (n + 4) * _U) * size + _lost(row, eta)
    weight = row.p + by_p
    value = np.abs(row.dy - row.p * row.dy.sum(axis=1, keepdims=True))
    error = weight * s_error + by_p * s + u * weight * (s + s_error) + eta
    error = (1 + u) * error + u * value + 2.0**-31 * row.p * s * u
    return _Found(value, error, by_p * s, weight * s_error, (1 + kappa) * size)


def _finished(row: _Row, found: _Found, forward: Bound) -> Bound:
    fmt = FORMATS[row.model.output]
    last = np.maximum(
        fmt.u * (found.value + found.error), fmt.underflow_unit(flush=row.model.flushes_output)
    )
    total = (found.error + last) * INFLATION
    reasons = dict(forward.flag_reasons)
    reasons["G3"] = found.reach > FORMATS[row.model.softmax_format].largest
    reasons["G4"] = found.value + found.error >= fmt.overflow_threshold
    reasons = {
        name: np.broadcast_to(flag.any(axis=1, keepdims=True), total.shape)
        for name, flag in reasons.items()
        if flag.any()
    }
    flagged = np.zeros(total.shape, bool)
    for flag in reasons.values():
        flagged = flagged | flag
    total = np.where(flagged | ~(total <= VACUOUS), np.inf, total)
    by_p = np.minimum(found.by_p, found.error)
    by_sum = np.minimum(found.by_sum, found.error - by_p)
    shares = (by_p, by_sum, found.error - by_p - by_sum, last)
    return Bound(total, total, flagged, reasons, dict(zip(GRADIENT_STAGES, shares, strict=True)))
