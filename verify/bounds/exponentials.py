"""Exponentials: errors of exp(s - m) that are not common to the row (stage 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from verify.arithmetic import ArithmeticModel
from verify.bounds.folding import Rows
from verify.bounds.scores import FIELDS as SCORE_FIELDS
from verify.bounds.scores import ScoreError
from verify.bounds.statement import Array, Booleans
from verify.formats import FORMATS

# The model's fields that this stage reads, besides those of the scores.
FIELDS = (
    *SCORE_FIELDS, "softmax_format", "shift", "exponential", "exp_ulps", "exp_relative",
    "flush_exp", "exp_zero_below", "block", "splits", "lazy", "max_offset", "log_ulps",
)  # fmt: skip

# Larger arguments are cut here: e^300 times any spread of values is far beyond the hull, which then
# bounds the error, and products of two such numbers are still finite.
_LARGEST_EXPONENT = 300.0


@dataclass(frozen=True)
class Exponentials:
    """
    What is known of the exponentials of a block of rows, relative to a factor common to the row.

    Shapes      theta, growth, systematic, random (slabs, rows, n); the others (slabs, rows, 1).
    Definition  e_hat_j = C (e_j (1 + phi_j) + a_j), C common to the row, with
                exp(-theta_j)(2 - E) <= 1 + phi_j <= exp(theta_j) E,  E = (1 + eps)^(R+1),
                |a_j| <= underflow where that is not 0.
    theta       argument errors; growth = p expm1(theta)
    log_e       log E; rescales: R
    offset      |m_hat - M| <= offset; stale: how far P may exceed 1, in natural log units
    log_c_lower log of a lower bound of C; log_c_upper: of an upper bound
    least_sum   lower bound of the sum of the computed exponentials that the shift guarantees
                (one of them is exp(0)); 0 without a shift
    residual    |argument| of the exponential that a perfect shift would make exp(0)
    sink_above  how far the sink lies above a shift that leaves it out
    systematic, random   the split of theta for Theorem 2
    """

    theta: Array
    growth: Array
    systematic: Array
    random: Array
    log_e: Array
    rescales: Array
    offset: Array
    stale: Array
    log_c_lower: Array
    log_c_upper: Array
    least_sum: Array
    residual: Array
    sink_above: Array
    underflow: Array | None
    flags: dict[str, Booleans]

    def tiled(self, model: ArithmeticModel) -> Booleans:
        """Rows whose partial sums are relative to an earlier maximum than the row's."""
        return np.asarray((self.rescales > 0) | (model.splits > 1 and model.shift))

    @property
    def log_largest(self) -> Array:
        """Log of an upper bound of every exponential, times its rescales, at any time of a shifted
        kernel: the argument is at most stale + residual when it is formed, and no larger later."""
        return np.asarray(self.log_e + np.minimum(self.stale + self.residual, 300.0))


def exponentials(rows: Rows, model: ArithmeticModel, scores: ScoreError) -> Exponentials:
    """
    Error of exp(s - m) for every shift and exponential of the model.

    Shapes      see `Exponentials`.
    Definition  D_j = |s_j - M| + delta_j + rho + 2 (lag + offset), rho = max_j (s_j + delta_j) - M.
    Guarantee   see `Exponentials`, with theta_j = delta_j +
                'difference'    u D_j
                'fma'           (eps_c + 3u)(1 + eps_c) D_j + [R > 0] u (1 + 4u) S_j, eps_c = 2u,
                                S_j = max(|s_j| + delta_j, |M| + rho) + lag + offset
                no shift        0
                split-KV        2u (S_j + ln n + 1) + 2 log_ulps u (ln n + 1)
                                + u (D_j + 2 ln n + 2) more, and with 'fma' 5u (1 + 2u) S_j more
    Requires    exp(0) = 1; the running maximum never decreases; no flag O1 to O4.
    Special     a key that is not live has theta = 0 and p = 0.
    Source      docs/theory/bounds.md, section 4.
    """
    rescales = _rescales(rows, model)
    rho = _largest(rows, scores.delta - rows.distance)
    # with one block there is no rescale to put off
    lag = np.where(rescales > 0, model.lazy * math.log(2), 0.0)
    stale = lag + model.max_offset
    reach = rows.distance + scores.delta + rho + 2 * stale
    above = _sink_above(rows)
    if rows.has_sink:
        reach[:, :, -1:] += above
    top = np.abs(rows.maximum) + rho + stale
    # the running maxima that a key meets lie between its own score and the largest
    size = np.maximum(rows.score + scores.delta + stale, top)
    random, common = _argument(rows, model, reach, size, rescales)
    error = math.log1p(model.exp_error)
    log_e = error * (rescales + 1 + (1 if model.splits > 1 else 0))
    systematic = scores.systematic + common + (log_e if model.exp_relative is not None else 0.0)
    chance = scores.variance + random**2 + (0.0 if model.exp_relative is not None else log_e**2)
    theta = np.where(rows.live, scores.delta + random + common, 0.0)
    # the largest exponential is exp(0), or with fma exp2 of the rounding of m c
    u = FORMATS[model.softmax_format].u
    residual = 3 * u * top if model.exponential == "fma" and model.shift else 0.0 * top
    low, high, least = _common_factor(model, rho, residual, rows.maximum, lag + above)
    return Exponentials(
        theta=theta,
        growth=grown(rows, theta),
        systematic=np.where(rows.live, systematic, 0.0),
        random=chance,
        log_e=log_e,
        rescales=rescales,
        offset=rho + stale,
        stale=stale,
        log_c_lower=low,
        log_c_upper=high,
        least_sum=least,
        residual=residual,
        sink_above=above,
        underflow=_underflow(rows, model, theta, log_e, low),
        flags=scores.flags | _overflow(rows, model, theta, residual + stale),
    )


def _largest(rows: Rows, x: Array) -> Array:
    """Row maximum over live keys, at least 0."""
    return np.asarray(np.where(rows.live, x, 0.0).max(axis=2, initial=0.0, keepdims=True))


def _rescales(rows: Rows, model: ArithmeticModel) -> Array:
    """R: how often the running maximum may change after the first live key."""
    if model.block is None or not model.shift:
        return np.zeros(rows.count.shape)
    keys = rows.n - (1 if rows.has_sink else 0)
    # the sink may come on its own, after the last block
    steps = math.ceil(keys / model.block) + (1 if rows.has_sink else 0)
    return np.minimum(max(steps - 1, 0), np.maximum(rows.count - 1, 0))


def _sink_above(rows: Rows) -> Array:
    """Kernels that add the sink at the end shift it by the maximum of the keys alone."""
    above = np.maximum(rows.maximum - rows.key_maximum, 0.0)
    return np.where(np.isfinite(above) & rows.has_sink, above, 0.0)


def _argument(
    rows: Rows, model: ArithmeticModel, reach: Array, size: Array, rescales: Array
) -> tuple[Array, Array]:
    """Errors of the argument of exp: (independent roundings, what is common or systematic)."""
    u = FORMATS[model.softmax_format].u
    nothing = np.zeros(reach.shape)
    if not model.shift:
        return nothing, nothing
    if model.exponential == "difference":
        random, common = u * reach, nothing
    else:
        constant = 2 * u  # of c = scale log2 e
        random = 3 * u * (1 + constant) * reach
        common = constant * (1 + constant) * reach
        common = common + (rescales > 0) * u * (1 + 4 * u) * size
    if model.splits > 1:
        common = common + _merge(rows, model, reach, size)
    return random, common


def _merge(rows: Rows, model: ArithmeticModel, reach: Array, size: Array) -> Array:
    """What the log-sum-exps of the parts add: rounding, the log, and the second shift."""
    u = FORMATS[model.softmax_format].u
    log_n = math.log(max(rows.n, 1))
    merged = 2 * u * (size + log_n + 1) + 2 * model.log_ulps * u * (log_n + 1)
    merged = merged + u * (reach + 2 * log_n + 2)
    return merged + (5 * u * (1 + 2 * u) * size if model.exponential == "fma" else 0.0)


def grown(rows: Rows, theta: Array) -> Array:
    """p expm1(theta), also where p underflows and theta is large."""
    growth = rows.p * np.expm1(np.minimum(theta, 1.0))
    if theta.max(initial=0.0) > 1.0:
        log_p = -rows.distance - np.log(rows.row_sum)
        large = np.exp(np.minimum(log_p + theta, _LARGEST_EXPONENT))
        growth = np.where(rows.live & (theta > 1.0), large, growth)
    return growth


def _common_factor(
    model: ArithmeticModel, rho: Array, residual: Array, maximum: Array, stale: Array
) -> tuple[Array, Array, Array]:
    """(log of a lower and an upper bound of C, lower bound of the sum of exponentials)."""
    if not model.shift:
        clipped = np.clip(maximum, -_LARGEST_EXPONENT, _LARGEST_EXPONENT)
        return clipped, clipped, np.zeros(clipped.shape)
    offset = rho + model.max_offset
    least = (1 - model.exp_error) * np.exp(-np.minimum(model.max_offset + residual, 300.0))
    return (
        -np.minimum(offset, _LARGEST_EXPONENT),
        np.minimum(offset + stale, _LARGEST_EXPONENT),
        np.asarray(least),
    )


def _underflow(
    rows: Rows, model: ArithmeticModel, theta: Array, log_e: Array, log_c: Array
) -> Array | None:
    """|a_j|, relative to C: absolute errors of exponentials (and rescales) that may underflow."""
    fmt = FORMATS[model.softmax_format]
    flush = model.flush_to_zero or model.flush_exp
    unit = fmt.smallest_normal if flush else max(model.exp_ulps, 0.5) * fmt.smallest
    # a value that becomes zero is off by itself: by less than where that begins
    begins = max(fmt.smallest_normal, model.exp_zero_below or 0.0)
    unit = max(unit, model.exp_zero_below or 0.0)
    lag = 2.0**model.lazy if model.shift else 1.0
    smallest = -rows.distance - theta + log_c + np.log(np.maximum(2 - np.exp(log_e), 1e-300))
    reached = rows.live & (smallest < math.log(2 * begins * lag))
    if not reached.any():
        return None
    twice = 2.0 if model.block is not None else 1.0  # the exponential, and a rescale
    return np.where(reached, twice * unit * lag * np.exp(-log_c), 0.0)


def _overflow(rows: Rows, model: ArithmeticModel, theta: Array, top: Array) -> dict[str, Booleans]:
    """O4; `top`: the largest argument of a shifted exponential."""
    fmt = FORMATS[model.softmax_format]
    if model.shift:
        # one that large may just as well be that small, and empty the row
        return {"O4": top > min(math.log(fmt.largest), -math.log(fmt.smallest_normal)) - 2}
    argument = rows.maximum - rows.distance + theta + model.exp_error
    over = rows.live & (argument > math.log(fmt.largest))
    return {"O4": np.asarray(over.any(axis=2, keepdims=True))}
