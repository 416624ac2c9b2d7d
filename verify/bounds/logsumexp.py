"""Log-sum-exp: how far m + ln l may be from the exact one (S2)."""

from __future__ import annotations

import math

import numpy as np

from verify.arithmetic import ArithmeticModel
from verify.bounds.exponentials import Exponentials
from verify.bounds.folding import Rows
from verify.bounds.row_sum import RowSumError
from verify.bounds.statement import Array
from verify.bounds.weights import Weights
from verify.formats import FORMATS


def logarithm_error(
    rows: Rows,
    model: ArithmeticModel,
    exps: Exponentials,
    weights: Weights,
    row_sum: RowSumError,
) -> Array:
    """
    Error of ln l_hat + ln(common factor), before it is added to the maximum.

    Shapes      returns (slabs, rows, 1).
    Guarantee   b0 + eps_log (|ln l| + b0 + offset + ln S) + 2u (the same with base 2), where
                b0 = max(ln(1 + sum p up), -ln(sum p low)) + max(ln(1 + kappa), ln growth)
                is the error of the exact logarithm, and l is taken in the kernel's own units;
                one more rounding where it is kept in log_format.
    Requires    no flag O1 to O6.
    Source      docs/theory/bounds.md, section 7.
    """
    u = FORMATS[model.softmax_format].u
    exact = np.maximum(np.log1p(weights.excess), -np.log(np.minimum(weights.least, 1.0)))
    exact = exact + np.maximum(np.log1p(row_sum.kappa), np.log(row_sum.growth))
    logarithm = np.log(rows.row_sum) if model.shift else rows.lse
    size = np.abs(logarithm) + exact + exps.offset + math.log(max(model.splits, 1))
    error = exact + (2 * model.log_ulps + 2) * u * size
    if model.log_format is not None:
        fmt = FORMATS[model.log_format]
        error = error + np.maximum(fmt.u * (size + error), fmt.underflow_unit())
    return np.asarray(error)


def shift_error(rows: Rows, model: ArithmeticModel, exps: Exponentials) -> Array:
    """Error of the shift as it is added to the logarithm: 5 u |m| where it is kept as m c."""
    if not model.shift or model.exponential == "difference":
        return np.zeros(rows.maximum.shape)
    u = FORMATS[model.softmax_format].u
    return 5 * u * (1 + 4 * u) * (np.abs(rows.maximum) + exps.offset)


def log_sum_exp_error(
    rows: Rows,
    model: ArithmeticModel,
    exps: Exponentials,
    weights: Weights,
    row_sum: RowSumError,
    output: str,
) -> Array:
    """
    Error of the log-sum-exp as it is returned.

    Shapes      returns (slabs, rows, 1).
    Definition  LSE = M + ln l.
    Guarantee   b + u (|LSE| + b), rounded to the softmax's format and then to the output's, where
                b = `logarithm_error` + `shift_error`; S3 (no shift) is the case m = 0.
    Requires    no flag O1 to O6.
    Special     a row without keys: 0 (the value is -inf).
    Source      docs/theory/bounds.md, section 7, after Blanchard, Higham, Higham, IMA J. Numer.
                Anal. 41, 2021, with the range x_max - x_min replaced by an entropy.
    """
    error = logarithm_error(rows, model, exps, weights, row_sum)
    error = error + shift_error(rows, model, exps)
    for name in (model.softmax_format, output):
        fmt = FORMATS[name]
        size = np.abs(rows.lse) + error
        error = error + np.maximum(fmt.u * size, fmt.underflow_unit(flush=model.flush_to_zero))
    return np.where(rows.empty, 0.0, error)
