"""P of the backward pass: how far it may be from the exact one (theorem B1)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from verify.arithmetic import ArithmeticModel
from verify.bounds.attention import RowsBound
from verify.bounds.exponentials import grown
from verify.bounds.folding import Rows
from verify.bounds.row_sum import row_sum_error
from verify.bounds.softmax import quotient_error
from verify.bounds.statement import Array, Booleans
from verify.bounds.variants import Variant
from verify.formats import FORMATS


@dataclass(frozen=True)
class BackwardP:
    """
    P as the backward pass has it, before it is rounded for dV.

    Shapes      error (slabs, rows, n); total_error, units (slabs, rows, 1).
    Guarantee   |P_hat_j - p_j| <= error_j;  |sum_j P_hat_j - 1| <= total_error
    units       how much larger than 1 the sum of the numbers may be that P is kept as: the row sum
                where P is kept unnormalised (twice it where e and l are kept apart), else 1
    """

    error: Array
    total_error: Array
    units: Array
    flags: dict[str, Booleans]


def backward_p(rows: Rows, variant: Variant, forward: RowsBound) -> BackwardP:
    """
    Error of P in the backward pass.

    Shapes      see `BackwardP`; forward: the bound of the forward pass of the same rows.
    Guarantee   'lse'   p (e^theta' - 1) + eta, theta'_j = delta_j + dL + a_j + ln(1 + eps), dL the
                        error of the stored log-sum-exp, a_j = u (|s_j - L| + delta_j + dL), and
                        with fma 3u (1 + 4u)(|s_j| + |L| + delta_j + dL)
                'kept'  `quotient_error`; the sum of P is within the row sum's error of 1
                rounded to backward_p_format: max(u (p + error), eta) more
    Requires    no flag of the forward pass, and no G1.
    Special     0 where not live.
    Source      docs/theory/bounds.md, section 14.1.
    """
    model = variant.model
    found = _again(rows, variant, forward) if model.backward_p == "lse" else _kept(rows, variant)
    if model.backward_p_format is None:
        return found
    fmt = FORMATS[model.backward_p_format]
    lost = np.maximum(fmt.u * (rows.p + found.error), fmt.underflow_unit(flush=model.flush_p))
    lost = np.where(rows.live, lost, 0.0)
    more = fmt.u * (1 + found.total_error) + rows.count * fmt.underflow_unit(flush=model.flush_p)
    return BackwardP(found.error + lost, found.total_error + more, found.units, found.flags)


def _again(rows: Rows, variant: Variant, forward: RowsBound) -> BackwardP:
    """exp(s - LSE): not self-normalising, an error of the LSE is a factor of the whole row."""
    model, scores = variant.model, variant.scores
    fmt = FORMATS[model.softmax_format]
    wrong = scores.delta + forward.lse
    if model.exponential == "fma":
        size = rows.score + np.abs(rows.lse)
        argument = 3 * fmt.u * (1 + 4 * fmt.u) * (size + wrong)
    else:
        argument = fmt.u * (rows.distance + np.log(rows.row_sum) + wrong)
    theta = np.where(rows.live, wrong + argument + math.log1p(model.exp_error), 0.0)
    log_p = -rows.distance - np.log(rows.row_sum)
    flush = model.flush_to_zero or model.flush_exp
    unit = fmt.smallest_normal if flush else max(model.exp_ulps, 0.5) * fmt.smallest
    small = rows.live & (log_p - theta < math.log(2 * fmt.smallest_normal))
    error = grown(rows, theta) + np.where(small, unit, 0.0)
    over = rows.live & ((log_p + theta > math.log(fmt.largest) - 1) | forward.lse_beyond)
    return BackwardP(
        error,
        error.sum(axis=2, keepdims=True),
        np.ones(rows.count.shape),
        {"G1": np.asarray(over.any(axis=2, keepdims=True))},
    )


def _kept(rows: Rows, variant: Variant) -> BackwardP:
    """e / l of the forward pass."""
    model, w = variant.model, variant.weights
    fmt = FORMATS[model.softmax_format]
    division = (1 + 2 * fmt.u) * (1 + fmt.u) - 1
    row_sum = row_sum_error(rows, model, variant.exps, w)
    error = quotient_error(rows, model, variant.exps, w, row_sum, division)
    eta = fmt.underflow_unit(flush=model.flush_to_zero)
    # the quotient is counted again: row_sum.factor holds one that may be a single rounding
    total = (1 + row_sum.factor) * (1 + division) * (1 + w.in_p) / (1 - w.in_p) - 1
    total = np.minimum(total + rows.count * eta, error.sum(axis=2, keepdims=True))
    units = np.ones(rows.count.shape)
    if model.backward_p == "apart":
        units = np.maximum(units, 2 * (1 + row_sum.kappa) * row_sum.reach)
    elif not model.p_normalised:
        units = np.maximum(units, row_sum.reach)
    return BackwardP(error, total, units, {})


def p_for_values(rows: Rows, model: ArithmeticModel, p: BackwardP) -> Array:
    """Error of P where it enters dV: rounded to p_format, which may flush."""
    if not model.rounds_p and not model.flush_p:
        return p.error
    fmt = FORMATS[model.p_format]
    eta = fmt.underflow_unit(flush=model.flush_p or model.flush_to_zero)
    lost = np.maximum(fmt.u * (rows.p + p.error), eta)
    return np.where(rows.live, p.error + lost, 0.0)
