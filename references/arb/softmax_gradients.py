"""Gradients of softmax and log_softmax of rows, in balls."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from flint import arb
from numpy.typing import NDArray

from references.arb.balls import Ball, narrow, unknown, words
from references.arb.gradient_kinds import FREE, PLAIN, SHOWS, UNDEFINED, mark
from references.arb.precision import FIRST_BITS, TARGET_BITS, ladder, precision
from references.enclosure import FINITE, Array, Enclosure

# From y and dy of the entries with y > 0, and sum dy of all: dx, and what bounds its terms.
Rule = Callable[[list[Ball], list[Ball], Ball], tuple[list[Ball], list[Ball]]]


def softmax_gradient(x: Array, dy: Array, *, extra_bits: int = 0) -> Enclosure:
    """
    dX of softmax along the last axis.

    Shapes      x, dy: (rows, n); returns (rows, n).
    Definition  dx_i = y_i (dy_i - sum_j y_j dy_j), y = softmax(x).
    Guarantee   |dx - (hi + lo)| <= radius <= 2^-(100 + extra_bits) y_i (|dy_i| + sum_j y_j |dy_j|)
                + 2^-105 |dx_i| + 2^-1073, or radius = +inf.
    Requires    float64 arrays of one shape.
    Special     as in `references`.
    Source      ball arithmetic: F. Johansson, Arb, IEEE Transactions on Computers 66(8), 2017.
    """
    _check(x, dy)
    kinds, idle = _kinds(x, dy)
    return _gradient(x, dy, extra_bits, _softmax, kinds, np.where(idle, 0.0, dy))


def log_softmax_gradient(x: Array, dy: Array, *, extra_bits: int = 0) -> Enclosure:
    """
    dX of log_softmax along the last axis.

    Shapes      x, dy: (rows, n); returns (rows, n).
    Definition  dx_i = dy_i - y_i sum_j dy_j, y = softmax(x).
    Guarantee   |dx - (hi + lo)| <= radius <= 2^-(100 + extra_bits) (|dy_i| + y_i |sum_j dy_j|)
                + 2^-105 |dx_i| + 2^-1073, or radius = +inf.
    Requires    float64 arrays of one shape.
    Special     as in `references`.
    Source      ball arithmetic, as in `softmax_gradient`.
    """
    _check(x, dy)
    idle = np.asarray(x == -np.inf)
    kind = _kind(dy).max(axis=1, initial=PLAIN, keepdims=True)
    kinds = np.where(idle & (kind != PLAIN), FREE, kind)
    return _gradient(x, dy, extra_bits, _log_softmax, kinds, dy)


def _check(x: Array, dy: Array) -> None:
    if x.ndim != 2 or x.shape != dy.shape:
        raise ValueError(f"x has shape {x.shape}, dy {dy.shape}: use one shape (rows, n)")


def _kind(dy: Array) -> NDArray[np.int64]:
    return np.where(np.isnan(dy), UNDEFINED, np.where(np.isinf(dy), SHOWS, PLAIN))


def _kinds(x: Array, dy: Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """What dy does to the entries of softmax; entries of probability 0."""
    idle = np.asarray(x == -np.inf)
    live = np.where(idle, PLAIN, _kind(dy)).max(axis=1, initial=PLAIN, keepdims=True)
    lost = np.where(idle, _kind(dy), PLAIN).max(axis=1, initial=PLAIN, keepdims=True)
    kinds = np.where((lost != PLAIN) & (live != UNDEFINED), FREE, live)
    return np.where(idle & (kinds != PLAIN), FREE, np.broadcast_to(kinds, x.shape)), idle


def _gradient(
    x: Array, dy: Array, extra_bits: int, rule: Rule, kinds: NDArray[np.int64], idle: Array
) -> Enclosure:
    truth = unknown(x.shape, x.shape[:-1])
    infinite = np.any(x == np.inf, axis=1, keepdims=True)
    undefined = np.any(np.isnan(x), axis=1, keepdims=True) | np.all(x == -np.inf, axis=1)[:, None]
    kinds = np.where(undefined, UNDEFINED, np.where(infinite, FREE, kinds))
    kinds = np.broadcast_to(kinds, x.shape)
    truth.hi[...], truth.radius[...] = idle, 0.0
    for i in range(len(x)):
        live = np.asarray(np.isfinite(x[i]) & (kinds[i] == PLAIN))
        if live.any():
            found = _row(x[i], dy[i], live, rule, extra_bits)
            truth.hi[i, live], truth.lo[i, live], truth.radius[i, live] = found
    truth.classes[...] = FINITE
    mark(truth, kinds)
    return truth


def _row(
    x: Array, dy: Array, live: NDArray[np.bool_], rule: Rule, extra_bits: int
) -> tuple[Array, Array, Array]:
    with precision(2200):  # holds the difference of any two float64, and sums of 2^50 of them
        top = arb(float(x[live].max()))
        shifted = [arb(value) - top for value in x[live].tolist()]
        total = sum(map(arb, dy.tolist()), arb(0))
        upstream = list(map(arb, dy[live].tolist()))
    for bits in ladder(FIRST_BITS, extra_bits):
        with precision(bits):
            weights = [z.exp() for z in shifted]
            row_sum = sum(weights, arb(0))
            balls, sizes = rule([w / row_sum for w in weights], upstream, total)
            hi, lo, radius = words(balls)
            size = np.array([float(s.upper()) for s in sizes])
        good = narrow(radius, hi, size, TARGET_BITS + extra_bits)
        if good.all():
            break
    return hi, lo, np.where(good, radius, np.inf)


def _softmax(y: list[Ball], dy: list[Ball], _: Ball) -> tuple[list[Ball], list[Ball]]:
    pairs = list(zip(y, dy, strict=True))
    mean = sum((p * g for p, g in pairs), arb(0))
    size = sum((p * abs(g) for p, g in pairs), arb(0))
    return [p * (g - mean) for p, g in pairs], [p * (abs(g) + size) for p, g in pairs]


def _log_softmax(y: list[Ball], dy: list[Ball], total: Ball) -> tuple[list[Ball], list[Ball]]:
    pairs = list(zip(y, dy, strict=True))
    return [g - p * total for p, g in pairs], [abs(g) + p * abs(total) for p, g in pairs]
