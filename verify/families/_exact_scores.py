"""Scores that every kernel forms exactly: integers q and k with power-of-two weights.

Each score of a row is an integer below 2^24 times a power of two.  It is cut into digits that the
format holds; a query row has one power of two per digit and zeros elsewhere.  All products and all
partial sums, in any order, are then integers below 2^24 in one unit: exact in binary32, and after a
power-of-two scale still exact.  What such a case measures is the softmax alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from verify.case import Arrays, Axes
from verify.formats import Format
from verify.integers import Draws

Integers = NDArray[np.int64]
LIMIT = 2**24
SIXTY_FOURTH = -6  # default unit: scores are multiples of 2^-6


def rows_that_fit(fmt: Format, axes: Axes, limit: int = LIMIT) -> int:
    """How many different score rows d coordinates can carry, for scores below `limit` units."""
    return min(axes.n_q, axes.d // _digit_count(fmt, limit - 1))


def exact_qk(
    fmt: Format,
    axes: Axes,
    units: Integers,
    unit: int = SIXTY_FOURTH,
    scale: float | None = None,
) -> Arrays:
    """q and k whose score (i, j) is exactly units[i mod r, j] 2^unit.

    Shapes      units (r, n_k); returns q (batch, heads, n_q, d), k (batch, kv_heads, n_k, d).
    Requires    |units| < 2^24; scale a power of two (None: 1/sqrt(d) with d a power of 4);
                d >= r times the digits that a score needs.
    Raises      OverflowError where the format cannot hold such q and k.
    """
    exponent = unit - _log2_scale(axes.d, scale)
    rows = len(units)
    digits = _digit_count(fmt, int(np.abs(units).max(initial=1)))
    if rows * digits > axes.d or np.abs(units).max(initial=0) >= LIMIT:
        raise OverflowError(f"{rows} rows of {digits} digits do not fit in d = {axes.d}")
    q = np.zeros((axes.n_q, axes.d))
    k = np.zeros((axes.n_k, axes.d))
    for place in range(digits):
        weight = exponent + fmt.p * place
        digit = np.sign(units) * ((np.abs(units) >> (fmt.p * place)) & (2**fmt.p - 1))
        to_q = -(-weight // 2)
        k[:, place : rows * digits : digits] = np.ldexp(digit.T.astype(np.float64), weight - to_q)
        for i in range(axes.n_q):
            q[i, (i % rows) * digits + place] = np.ldexp(1.0, to_q)
    if not (np.array_equal(fmt.round(q), q) and np.array_equal(fmt.round(k), k)):
        raise OverflowError(
            f"scores up to {np.abs(units).max()} 2^{unit} are out of the range of {fmt.name}"
        )
    return {"q": np.broadcast_to(q, axes.q), "k": np.broadcast_to(k, axes.k)}


def near(draws: Draws, rows: int, n: int, top: int, spread: int) -> Integers:
    """Score rows whose maximum is `top` and whose other entries lie up to `spread` units below."""
    units = top - draws.integers(0, spread + 1, (rows, n))
    units[np.arange(rows), draws.integers(0, n, (rows,))] = top
    return np.asarray(units, np.int64)


def _digit_count(fmt: Format, largest: int) -> int:
    return max(1, -(-largest.bit_length() // fmt.p))


def _log2_scale(d: int, scale: float | None) -> int:
    number = float(d) if scale is None else scale
    mantissa, exponent = np.frexp(number)
    if mantissa != 0.5 or (scale is None and exponent % 2 != 1):
        raise ValueError(f"scale {scale}, d {d}: exact scores need a power-of-two scale")
    return int(exponent) - 1 if scale is not None else -(int(exponent) - 1) // 2
