"""softmax, log_softmax and logsumexp of rows, in balls."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from references.arb.balls import Ball, narrow, unknown, words
from references.arb.precision import FIRST_BITS, TARGET_BITS, ladder, precision
from references.enclosure import FINITE, NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, Array, Enclosure

Triple = tuple[Array, Array, Array]
Rule = Callable[[list[Ball], list[Ball], Ball], list[Ball]]


def softmax(x: Array, *, extra_bits: int = 0) -> Enclosure:
    """
    Softmax along the last axis.

    Shapes      x: (rows, n); returns (rows, n).
    Definition  p_i = exp(x_i - M) / sum_j exp(x_j - M), M = max_j x_j.
    Guarantee   |p_i - (hi + lo)| <= radius, and radius <= (2^-(100 + extra_bits) + 2^-105) p_i +
                2^-1073, or radius = +inf.
    Requires    x float64; extra_bits >= 0.
    Special     see `references`.
    Source      ball arithmetic: F. Johansson, Arb, IEEE Transactions on Computers 66(8), 2017.
    """
    truth = unknown(x.shape, x.shape[:-1])
    for i, row in enumerate(x):
        live, classes = _live(row)
        if not live.any():
            _set(truth, (i,), np.nan, NAN)
            continue
        _set(truth, (i, ~live), 0.0, classes)
        found = _climb(_shifted(row, live), _probabilities, extra_bits, floor=0.0)
        _put(truth, (i, live), found, classes)
    return truth


def log_softmax(x: Array, *, extra_bits: int = 0) -> Enclosure:
    """
    Logarithm of the softmax along the last axis.

    Shapes      x: (rows, n); returns (rows, n).
    Definition  x_i - M - ln sum_j exp(x_j - M), M = max_j x_j.
    Guarantee   |value - (hi + lo)| <= radius, and radius <= 2^-(100 + extra_bits) max(1, |value|)
                + 2^-105 |value| + 2^-1073, or radius = +inf.
    Requires    x float64; extra_bits >= 0.
    Special     NaN or all -inf: NAN.  -inf: NEGATIVE_INFINITY.  With +inf the limit, or NaN.
    Source      ball arithmetic, as in `softmax`.
    """
    truth = unknown(x.shape, x.shape[:-1])
    for i, row in enumerate(x):
        live, classes = _live(row)
        if not live.any():
            _set(truth, (i,), np.nan, NAN)
            continue
        _set(truth, (i, ~live), -np.inf, NEGATIVE_INFINITY | classes & NAN)
        found = _climb(_shifted(row, live), _logarithms, extra_bits, floor=1.0)
        _put(truth, (i, live), found, classes)
    return truth


def logsumexp(x: Array, *, extra_bits: int = 0) -> Enclosure:
    """
    Log-sum-exp along the last axis (natural logarithm).

    Shapes      x: (rows, n); returns (rows,).
    Definition  M + ln sum_j exp(x_j - M), M = max_j x_j.
    Guarantee   |value - (hi + lo)| <= radius, and radius <= 2^-(100 + extra_bits) max(1, |value|)
                + 2^-105 |value| + 2^-1073, or radius = +inf.
    Requires    x float64; extra_bits >= 0.
    Special     NaN: NAN.  Empty or all -inf: NEGATIVE_INFINITY.  +inf: POSITIVE_INFINITY or NaN.
    Source      ball arithmetic, as in `softmax`.
    """
    truth = unknown(x.shape[:-1], x.shape[:-1])
    for i, row in enumerate(x):
        live, classes = _live(row)
        if np.isnan(row).any():
            _set(truth, (i,), np.nan, NAN)
        elif not live.any():
            _set(truth, (i,), -np.inf, NEGATIVE_INFINITY)
        elif classes & NAN:
            _set(truth, (i,), np.inf, POSITIVE_INFINITY | NAN)
        else:
            rule = partial(_log_sum, arb(float(row.max())))
            found = _climb(_shifted(row, live), rule, extra_bits, floor=1.0)
            _put(truth, (slice(i, i + 1),), found, FINITE)
    return truth


def _live(row: Array) -> tuple[NDArray[np.bool_], int]:
    """The entries with a positive probability, and the classes of theirs; none in a row of NaN."""
    top = row == np.inf
    live = top if top.any() else np.isfinite(row)
    return live & ~np.isnan(row).any(), FINITE | NAN if top.any() else FINITE


def _shifted(row: Array, live: NDArray[np.bool_]) -> list[Ball]:
    """x_j - M of the live entries, exact balls."""
    values = np.where(row == np.inf, 0.0, row)[live]
    with precision(2200):  # holds the difference of any two float64
        top = arb(float(values.max()))
        return [arb(value) - top for value in values.tolist()]


def _probabilities(weights: list[Ball], shifted: list[Ball], total: Ball) -> list[Ball]:
    return [weight / total for weight in weights]


def _logarithms(weights: list[Ball], shifted: list[Ball], total: Ball) -> list[Ball]:
    logarithm = total.log()
    return [z - logarithm for z in shifted]


def _log_sum(top: Ball, weights: list[Ball], shifted: list[Ball], total: Ball) -> list[Ball]:
    return [top + total.log()]


def _climb(shifted: list[Ball], rule: Rule, extra_bits: int, floor: float) -> Triple:
    """The values of a rule, at the first precision that makes all of them narrow."""
    for bits in ladder(FIRST_BITS, extra_bits):
        with precision(bits):
            weights = [z.exp() for z in shifted]
            hi, lo, radius = words(rule(weights, shifted, sum(weights, arb(0))))
        good = narrow(radius, hi, np.maximum(np.abs(hi), floor), TARGET_BITS + extra_bits)
        if good.all():
            break
    return hi, lo, np.where(good, radius, np.inf)


def _set(truth: Enclosure, place: Any, value: float, classes: int) -> None:
    truth.hi[place], truth.lo[place], truth.radius[place] = value, 0.0, 0.0
    truth.classes[place] = classes


def _put(truth: Enclosure, place: Any, found: Triple, classes: int) -> None:
    truth.hi[place], truth.lo[place], truth.radius[place] = found
    truth.classes[place] = classes
