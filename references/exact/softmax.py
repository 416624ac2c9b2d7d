"""softmax, log_softmax and logsumexp of the rows of a matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from references.enclosure import FINITE, NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, Array, Enclosure
from references.exact.integers import weighted_sums
from references.exact.precision import TARGET_BITS, Context, Real, working_bits, working_precision
from references.exact.words import put, put_special, unknown, up, upper


@dataclass(frozen=True)
class _Row:
    """A row of finite numbers, shifted: weights[i] = exp(x_i - maximum), total = their sum."""

    shifted: list[Real]
    weights: list[Real]
    total: Real
    maximum: Real
    size: float  # S of the proof


def softmax(x: Array, *, extra_bits: int = 0) -> Enclosure:
    """
    Softmax along the last axis.

    Shapes      x: (rows, n); returns (rows, n).
    Definition  p_i = exp(x_i - M) / sum_j exp(x_j - M), M = max_j x_j.
    Guarantee   |p_i - (hi + lo)| <= radius <= (2^-(110 + extra_bits) + 2^-105) p_i + 2^-1073,
                if mpmath errs by at most one ulp per operation.
    Requires    x float64; extra_bits >= 0.
    Special     see `references`: NaN makes a row NAN; +inf the limit or NaN; -inf gives exactly 0.
    Source      `references.exact.precision`, line "W, p_j".
    """
    truth = unknown(x.shape, x.shape[:-1])
    for i, row in enumerate(x.tolist()):
        _softmax_row(truth, i, row, TARGET_BITS + extra_bits)
    return truth


def log_softmax(x: Array, *, extra_bits: int = 0) -> Enclosure:
    """
    Logarithm of the softmax along the last axis.

    Shapes      x: (rows, n); returns (rows, n).
    Definition  x_i - M - ln sum_j exp(x_j - M), M = max_j x_j.
    Guarantee   |value - (hi + lo)| <= radius <= 2^-(110 + extra_bits) + 2^-105 |value| + 2^-1073,
                if mpmath errs by at most one ulp per operation.
    Requires    x float64; extra_bits >= 0.
    Special     NaN or all -inf: NAN.  -inf: NEGATIVE_INFINITY.  With +inf present the limit
                (-ln of their number, and -inf elsewhere), or NaN.
    Source      `references.exact.precision`, line "s_i - LSE".
    """
    truth = unknown(x.shape, x.shape[:-1])
    for i, row in enumerate(x.tolist()):
        _log_softmax_row(truth, i, row, TARGET_BITS + extra_bits)
    return truth


def logsumexp(x: Array, *, extra_bits: int = 0) -> Enclosure:
    """
    Log-sum-exp along the last axis (natural logarithm).

    Shapes      x: (rows, n); returns (rows,).
    Definition  M + ln sum_j exp(x_j - M), M = max_j x_j.
    Guarantee   |value - (hi + lo)| <= radius <= 2^-(110 + extra_bits) + 2^-105 |value| + 2^-1073,
                if mpmath errs by at most one ulp per operation; a row with a single finite entry
                x is x itself up to 2^-(110 + extra_bits) min(1, 2|x|).
    Requires    x float64; extra_bits >= 0.
    Special     NaN: NAN.  Empty or all -inf: NEGATIVE_INFINITY.  +inf: POSITIVE_INFINITY or NaN.
    Source      `references.exact.precision`, line "LSE".
    """
    truth = unknown(x.shape[:-1], x.shape[:-1])
    for i, row in enumerate(x.tolist()):
        _logsumexp_row(truth, i, row, TARGET_BITS + extra_bits)
    return truth


def _softmax_row(truth: Enclosure, i: int, row: list[float], bits: int) -> None:
    if any(map(math.isnan, row)) or all(v == -math.inf for v in row):
        put_special(truth, (i,), math.nan, NAN)
        return
    classes = FINITE | NAN if math.inf in row else FINITE
    live, terms = _terms(row)
    with working_precision(_bits(terms, bits)) as mp:
        shifted = _shift(mp, terms)
        for j in range(len(row)):
            put_special(truth, (i, j), 0.0, classes)
        for j, weight in zip(live, shifted.weights, strict=True):
            p = weight / shifted.total
            put(truth, (i, j), p, up(upper(mp.ldexp(p, -bits))), classes)


def _log_softmax_row(truth: Enclosure, i: int, row: list[float], bits: int) -> None:
    if any(map(math.isnan, row)) or all(v == -math.inf for v in row):
        put_special(truth, (i,), math.nan, NAN)
        return
    limit = NAN if math.inf in row else 0
    live, terms = _terms(row)
    with working_precision(_bits(terms, bits)) as mp:
        shifted = _shift(mp, terms)
        log_total = mp.log(shifted.total)
        put_special(truth, (i,), -math.inf, NEGATIVE_INFINITY | limit)
        for j, z in zip(live, shifted.shifted, strict=True):
            put(truth, (i, j), z - log_total, _absolute(shifted, bits), FINITE | limit)


def _logsumexp_row(truth: Enclosure, i: int, row: list[float], bits: int) -> None:
    if any(map(math.isnan, row)):
        put_special(truth, (i,), math.nan, NAN)
    elif math.inf in row:
        put_special(truth, (i,), math.inf, POSITIVE_INFINITY | NAN)
    elif all(v == -math.inf for v in row):
        put_special(truth, (i,), -math.inf, NEGATIVE_INFINITY)
    else:
        _, terms = _terms(row)
        with working_precision(_bits(terms, bits)) as mp:
            shifted = _shift(mp, terms)
            lse = shifted.maximum + mp.log(shifted.total)
            put(truth, (i,), lse, _absolute(shifted, bits))


def _terms(row: list[float]) -> tuple[list[int], list[float]]:
    """Places and values that take part: 0 on the +inf entries if there are any, else the finite."""
    if math.inf in row:
        live = [j for j, v in enumerate(row) if v == math.inf]
        return live, [0.0] * len(live)
    live = [j for j, v in enumerate(row) if v != -math.inf]
    return live, [row[j] for j in live]


def _bits(terms: list[float], target_bits: int) -> int:
    return working_bits(math.frexp(max(map(abs, terms)))[1], len(terms), target_bits)


def _shift(mp: Context, terms: list[float]) -> _Row:
    maximum = mp.mpf(max(terms))
    shifted = [mp.mpf(v) - maximum for v in terms]
    exponentials = {z: mp.exp(z) for z in set(shifted)}  # ties are common in hard rows
    weights = [exponentials[z] for z in shifted]
    ones = np.full((len(terms), 1), 1, dtype=object)
    total = weighted_sums(mp, weights, ones)[0]
    return _Row(shifted, weights, total, maximum, max(map(abs, terms)))


def _absolute(row: _Row, bits: int) -> float:
    """2^-bits, or 2^-bits min(1, S) for a single term."""
    factor = min(1.0, row.size) if len(row.weights) == 1 else 1.0
    return math.nextafter(math.ldexp(factor, -bits), math.inf) if factor else 0.0
