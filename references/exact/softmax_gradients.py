"""Gradients of softmax and log_softmax of rows.

Proof       rho and eps as in `gradient_rows`, B = sum_j y_j |dy_j|, S = sum_j dy_j.
    softmax       D = sum y^_j dy_j from integers: 2 rho B; dy_i - D: 3 rho (|dy_i| + B); the
                  product with y^_i:                              < 5 rho y_i (|dy_i| + B)
    log_softmax   S exact, eps as a number of w bits; y^_i S: rho + 2 eps of itself; the
                  difference: eps of itself:                      < 2 rho (|dy_i| + y_i |S|)
So with rho <= 2^-(t + 4) every gradient is known up to 2^-t of the bracket as it was computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from references.enclosure import ANYTHING, NAN, Array, Enclosure
from references.exact.gradient_rows import (
    CLASSES,
    FINITE_TERM,
    NAN_TERM,
    UNSPECIFIED_TERM,
    Pair,
    level,
)
from references.exact.gradients import GUARD_BITS
from references.exact.integers import scaled_integers, weighted_sums
from references.exact.precision import TARGET_BITS, Context, Real, working_bits, working_precision
from references.exact.words import put, put_special, unknown, up, upper

Rule = Callable[[Context, dict[int, Real], list[float], list[int]], list[Pair]]


def softmax_gradient(x: Array, dy: Array, *, extra_bits: int = 0) -> Enclosure:
    """
    dX of softmax along the last axis.

    Shapes      x, dy: (rows, n); returns (rows, n).
    Definition  dx_i = y_i (dy_i - sum_j y_j dy_j), y = softmax(x).
    Guarantee   If mpmath errs by at most one ulp per operation, with t = 110 + extra_bits, radius
                <= 2^-t (1 + 2^-20) y_i (|dy_i| + sum_j y_j |dy_j|) + 2^-105 |dx_i| + 2^-1073.
    Requires    float64 arrays of one shape.
    Special     as in `references`.
    Source      the module's docstring.
    """
    return _gradient(x, dy, extra_bits, _softmax)


def log_softmax_gradient(x: Array, dy: Array, *, extra_bits: int = 0) -> Enclosure:
    """
    dX of log_softmax along the last axis.

    Shapes      x, dy: (rows, n); returns (rows, n).
    Definition  dx_i = dy_i - y_i sum_j dy_j, y = softmax(x).
    Guarantee   If mpmath errs by at most one ulp per operation, with t = 110 + extra_bits, radius
                <= 2^-t (1 + 2^-20) (|dy_i| + y_i |sum_j dy_j|) + 2^-105 |dx_i| + 2^-1073.
    Requires    float64 arrays of one shape.
    Special     as in `references`.
    Source      the module's docstring.
    """
    return _gradient(x, dy, extra_bits, _log_softmax)


def _gradient(x: Array, dy: Array, extra_bits: int, rule: Rule) -> Enclosure:
    if x.ndim != 2 or x.shape != dy.shape:
        raise ValueError(f"x has shape {x.shape}, dy {dy.shape}: use one shape (rows, n)")
    truth = unknown(x.shape, x.shape[:-1])
    for i, (row, upstream) in enumerate(zip(x.tolist(), dy.tolist(), strict=True)):
        _row(truth, i, row, upstream, TARGET_BITS + extra_bits, rule)
    return truth


def _row(
    truth: Enclosure, i: int, row: list[float], dy: list[float], target: int, rule: Rule
) -> None:
    live = [j for j, value in enumerate(row) if math.isfinite(value)]
    idle = [j for j, value in enumerate(row) if value == -math.inf]
    if any(map(math.isnan, row)) or len(idle) == len(row):
        put_special(truth, (i,), math.nan, NAN)
        return
    if math.inf in row:
        truth.classes[i] = ANYTHING
        return
    live_level, idle_level = _levels(row, [dy[j] for j in live], [dy[j] for j in idle], rule)
    for places, found in ((live, live_level), (idle, idle_level)):
        for j in places:
            truth.classes[i, j] = CLASSES[found]
            if found and found != UNSPECIFIED_TERM:
                put_special(truth, (i, j), math.nan, CLASSES[found])
    exponent = math.frexp(max(abs(row[j]) for j in live))[1]
    with working_precision(working_bits(exponent, len(row) + 1, target + GUARD_BITS)) as mp:
        if live_level == FINITE_TERM:
            found_pairs = rule(mp, _probabilities(mp, row, live), dy, live)
            for j, (value, size) in zip(live, found_pairs, strict=True):
                put(truth, (i, j), value, up(upper(mp.ldexp(size, -target))))
    if idle_level == FINITE_TERM:
        for j in idle:
            put_special(truth, (i, j), dy[j] if rule is _log_softmax else 0.0, CLASSES[0])


def _levels(row: list[float], live: list[float], idle: list[float], rule: Rule) -> tuple[int, int]:
    """What dy does to the entries with a probability, and to those without (x = -inf)."""
    everything = level([*live, *idle])
    if rule is _log_softmax:  # the sum takes all of dy
        return everything, UNSPECIFIED_TERM if everything else FINITE_TERM
    if level(live) == NAN_TERM:
        return NAN_TERM, UNSPECIFIED_TERM
    mine = UNSPECIFIED_TERM if level(idle) else level(live)
    return mine, UNSPECIFIED_TERM if everything else FINITE_TERM


def _probabilities(mp: Context, row: list[float], live: list[int]) -> dict[int, Real]:
    top = mp.mpf(max(row[j] for j in live))
    weights = [mp.exp(mp.mpf(row[j]) - top) for j in live]
    total = weighted_sums(mp, weights, np.full((len(live), 1), 1, dtype=object))[0]
    return {j: weight / total for j, weight in zip(live, weights, strict=True)}


def _softmax(mp: Context, y: dict[int, Real], dy: list[float], live: list[int]) -> list[Pair]:
    upstream = scaled_integers(np.array([dy[j] for j in live]))
    columns = np.stack([upstream.integers, np.abs(upstream.integers)], axis=1)
    sums = weighted_sums(mp, list(y.values()), columns)
    mean, size = (mp.ldexp(x, upstream.exponent) for x in sums)
    factors = [mp.mpf(dy[j]) for j in live]
    return [(p * (x - mean), p * (abs(x) + size)) for p, x in zip(y.values(), factors, strict=True)]


def _log_softmax(mp: Context, y: dict[int, Real], dy: list[float], live: list[int]) -> list[Pair]:
    upstream = scaled_integers(np.array(dy))
    total = mp.mpf((sum(upstream.integers.tolist()), upstream.exponent))
    factors = [mp.mpf(dy[j]) for j in live]
    return [
        (x - p * total, abs(x) + p * abs(total)) for p, x in zip(y.values(), factors, strict=True)
    ]
