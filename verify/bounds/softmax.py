"""Softmax and log-softmax: how far every element may be from the exact one (S1, S3, S4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from references.decompose import Decomposition
from verify.arithmetic import ArithmeticModel, Chain
from verify.bounds.attention import INFLATION, VACUOUS
from verify.bounds.exponentials import Exponentials, exponentials
from verify.bounds.folding import Rows, softmax_rows
from verify.bounds.logsumexp import log_sum_exp_error, logarithm_error, shift_error
from verify.bounds.row_sum import RowSumError, row_sum_error
from verify.bounds.scores import exact_scores
from verify.bounds.statement import STAGES, Array, Booleans, Bound, largest
from verify.bounds.weights import Weights, weights
from verify.formats import FORMATS
from verify.operation import OperationName


def softmax_bound_of_models(
    name: OperationName,
    parts: Decomposition,
    models: Sequence[ArithmeticModel],
) -> Bound:
    """
    The bound of softmax, log_softmax or logsumexp under any of several models.

    Shapes      parts: `decompose_softmax(x)`, x (rows, n); total (rows, n), logsumexp (rows,).
    Definition  p_j = exp(x_j - M) / l; x_j - LSE; LSE = M + ln l.
    Guarantee   see `probability_error`, `log_probability_error` and `log_sum_exp_error`.
    Requires    what the model declares: exact inputs, all arithmetic in softmax_format and the row
                sum's, one rounding to the output.  p_format is not read: P is not stored between.
    Special     a row that is all -inf, or with a NaN or +inf: flagged; x_j = -inf: 0.
    Source      docs/theory/bounds.md, section 7.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        blocks = [
            largest([_bound_rows(name, rows, model) for model in _distinct(models)])
            for _, rows in softmax_rows(parts)
        ]
    if not blocks:
        empty = np.zeros((0,) if name == "logsumexp" else (0, parts.p.shape[3]))
        return Bound(empty, empty, empty > 0, {}, dict.fromkeys(STAGES, empty))
    return _joined(blocks)


def _distinct(models: Sequence[ArithmeticModel]) -> list[ArithmeticModel]:
    """The models without what only attention has, each once."""
    return list(
        dict.fromkeys(
            replace(
                model,
                p_normalised=True,
                row_sum_of="unrounded",
                p_format=model.softmax_format,
                p_offset=0,
                splits=1,
                qk=Chain(),
                pv=Chain(),
            )
            for model in models
        )
    )


def probability_error(
    rows: Rows,
    model: ArithmeticModel,
    exps: Exponentials,
    w: Weights,
    row_sum: RowSumError,
) -> tuple[Array, Array]:
    """
    Error of a softmax before its last rounding (S1; S3 without a shift).

    Shapes      returns (error, its part due to the row sum), each (slabs, rows, n).
    Guarantee   p_hat_j <= w_j growth (1+k)/least,  p_hat_j >= low_j (1-k)/((1+excess)(1+kappa)),
                w_j <= p_j (1+up_j) + alpha_j, k = 3u or 2u; with one block (what is summed is
                what is divided) w_j / least is replaced by w_j / (w_j + least - low_j).
                Absolute underflow eta at the end.
    Requires    no flag O4 to O6.
    Special     x_j = -inf gives 0 exactly.
    Source      docs/theory/bounds.md, section 7.
    """
    fmt = FORMATS[model.softmax_format]
    # the product with the reciprocal is rounded to the output at once where the formats agree
    product = 0.0 if model.output == model.softmax_format else fmt.u
    division = (1 + 2 * fmt.u) * (1 + product) - 1
    error = quotient_error(rows, model, exps, w, row_sum, division)
    return error, rows.p * row_sum.factor


def quotient_error(
    rows: Rows,
    model: ArithmeticModel,
    exps: Exponentials,
    w: Weights,
    row_sum: RowSumError,
    division: float,
) -> Array:
    """
    Error of e_j / l, the quotient with relative error `division`.

    Shapes      returns (slabs, rows, n).
    Guarantee   that of `probability_error` with k = division.
    Requires    no flag O4 to O6.
    Source      docs/theory/bounds.md, section 7 (S1).
    """
    fmt = FORMATS[model.softmax_format]
    moved = w.scale * exps.growth + w.offset * rows.p
    lost = 0.0 if w.absolute is None else w.absolute
    upper = rows.p + moved + lost
    low = np.maximum(rows.p - moved, 0.0)
    total = w.least
    if model.block is None:
        total = np.maximum(upper + np.maximum(w.least - low, 0.0), 1e-300)
    # p (1+x) growth (1+k) / least - p, without cancellation
    gain = row_sum.growth * (1 + division)
    above = (gain * (moved + lost) + rows.p * ((gain - 1) + (1 - total))) / total
    shrink = (1 - division) / ((1 + w.excess) * (1 + row_sum.kappa))
    below = rows.p - np.maximum(low - lost, 0.0) * shrink
    error = np.maximum(np.maximum(above, below), 0.0)
    eta = fmt.underflow_unit(flush=model.flush_to_zero)
    return np.where(rows.live, error + eta, 0.0)


def log_probability_error(
    rows: Rows,
    model: ArithmeticModel,
    exps: Exponentials,
    w: Weights,
    row_sum: RowSumError,
) -> tuple[Array, Array]:
    """
    Error of a log-softmax before its last rounding (S4).

    Shapes      returns (error, its part due to the logarithm), each (slabs, rows, n).
    Definition  y_j = x_j - M - ln l.
    Guarantee   b + u |x_j - M| + u (|y_j| + .) for (x - m) - ln l, b = `logarithm_error` +
                `shift_error` (an exponent m c differs from the m that is subtracted here);
                with x - (m + ln l) the larger of u |x_j - M| and u (|LSE| + b) counts.
    Requires    no flag O4 to O6.
    Special     x_j = -inf gives -inf exactly: the error is 0.
    Source      docs/theory/bounds.md, section 7.
    """
    u = FORMATS[model.softmax_format].u
    logarithm = logarithm_error(rows, model, exps, w, row_sum)
    shifted = u * rows.distance
    if model.log_softmax == "lse" or not model.shift:
        shifted = np.maximum(shifted, u * (np.abs(rows.lse) + logarithm))
    value = rows.distance + np.log(rows.row_sum)
    error = shifted + logarithm + shift_error(rows, model, exps)
    error = error + u * (value + error)
    return np.where(rows.live, error, 0.0), logarithm + np.zeros(rows.p.shape)


def _bound_rows(name: OperationName, rows: Rows, model: ArithmeticModel) -> Bound:
    exps = exponentials(rows, model, exact_scores(rows))
    w = weights(rows, model, exps)
    row_sum = row_sum_error(rows, model, exps, w)
    flags = row_sum.flags | {"O2": _scaled_overflow(rows, model)}
    if name == "logsumexp":
        found = _log_sum_exp(rows, model, exps, w, row_sum)
    else:
        stage = probability_error if name == "softmax" else log_probability_error
        error, sums = stage(rows, model, exps, w, row_sum)
        value = rows.p if name == "softmax" else rows.distance + np.log(rows.row_sum)
        found = _rounded(model, value, error, np.minimum(sums, error))
        found = found.where(rows.live)
        # probabilities cannot overflow, however little is known of them
        beyond = value + error >= FORMATS[model.output].overflow_threshold
        flags = flags | {"O9": rows.live & beyond & (name == "log_softmax")}
    return _flagged(found, flags | _undefined(rows, name))


@dataclass(frozen=True)
class _Found:
    """Total and parts in folded shape (1, rows, n), or (1, rows, 1) where per_row."""

    total: Array
    weights: Array
    row_sum: Array
    output: Array
    per_row: bool = False

    def where(self, live: Booleans) -> _Found:
        """0 for what is not live."""
        return _Found(
            np.where(live, self.total, 0.0),
            np.where(live, self.weights, 0.0),
            np.where(live, self.row_sum, 0.0),
            np.where(live, self.output, 0.0),
        )


def _rounded(model: ArithmeticModel, value: Array, error: Array, sums: Array) -> _Found:
    fmt = FORMATS[model.output]
    lowest = fmt.underflow_unit(flush=model.flushes_output)
    last = np.maximum(fmt.u * (np.abs(value) + error), lowest)
    return _Found((error + last) * INFLATION, error - sums, sums, last)


def _log_sum_exp(
    rows: Rows,
    model: ArithmeticModel,
    exps: Exponentials,
    w: Weights,
    row_sum: RowSumError,
) -> _Found:
    total = log_sum_exp_error(rows, model, exps, w, row_sum, model.output) * INFLATION
    logarithm = logarithm_error(rows, model, exps, w, row_sum)
    sums = np.minimum(np.maximum(np.log1p(row_sum.kappa), np.log(row_sum.growth)), logarithm)
    rest = np.maximum(total - logarithm, 0.0)
    return _Found(total, logarithm - sums, sums, rest, per_row=True)


def _scaled_overflow(rows: Rows, model: ArithmeticModel) -> Booleans:
    """x log2 e beyond the format, where the exponent is formed so."""
    if model.exponential == "difference":
        return np.zeros(rows.count.shape, dtype=bool)
    return 1.5 * np.abs(rows.maximum) > FORMATS[model.softmax_format].largest


def _undefined(rows: Rows, name: OperationName) -> dict[str, Booleans]:
    # a logsumexp without entries is -inf exactly; a softmax without entries is NaN
    nothing = rows.broken_rows if name == "logsumexp" else rows.broken_rows | rows.empty
    return {"undefined": nothing, "undecomposed": ~rows.known}


def _flagged(found: _Found, flags: dict[str, Booleans]) -> Bound:
    """The block as a Bound: (rows, n), or (rows,) for one number per row."""
    shape = found.total.shape
    single = found.per_row

    def out(x: NDArray[Any]) -> NDArray[Any]:
        full = np.broadcast_to(x, shape)[0]
        return np.asarray(full[:, 0] if single else full)

    kept = {name: out(flag) for name, flag in flags.items() if flag.any()}
    flagged = np.zeros(shape[1:2] if single else shape[1:], dtype=bool)
    for flag in kept.values():
        flagged = flagged | flag
    total = np.where(flagged | ~(out(found.total) <= VACUOUS), np.inf, out(found.total))
    parts = {
        "scores": out(found.weights),
        "row sum": out(found.row_sum),
        "P and PV": np.zeros(total.shape),
        "output rounding": out(found.output),
    }
    # no probabilistic theorem is stated for softmax alone
    return Bound(total, total, flagged, kept, parts)


def _joined(blocks: Sequence[Bound]) -> Bound:
    """Blocks of rows one below the other."""
    names = sorted({name for b in blocks for name in b.flag_reasons})
    return Bound(
        total=np.concatenate([b.total for b in blocks]),
        probable=np.concatenate([b.probable for b in blocks]),
        flagged=np.concatenate([b.flagged for b in blocks]),
        flag_reasons={
            name: np.concatenate(
                [b.flag_reasons.get(name, np.zeros(b.total.shape, bool)) for b in blocks]
            )
            for name in names
        },
        parts={name: np.concatenate([b.parts[name] for b in blocks]) for name in STAGES},
    )
