"""Error-free products and double-double sums of float64 arrays, in NumPy.

The guarantees are proved in `references.decompose`, at its beginning.
"""

from __future__ import annotations

import math

import numpy as np

from references.enclosure import Array

Words = tuple[Array, Array]  # an unevaluated sum of two float64 arrays


def slices(x: Array) -> list[Array]:
    """x = the sum of the slices, each an integer matrix below 2^b times one power of two a row."""
    bits = (53 - math.ceil(math.log2(max(1, x.shape[1])))) // 2
    slices: list[Array] = []
    while not slices or x.any():
        _, exponent = np.frexp(np.abs(x).max(axis=1, keepdims=True, initial=0.0))
        unit = np.ldexp(1.0, exponent - bits)
        # the quotient is below 2^b and its rounding error at most 1/2; both steps are exact
        part = np.rint(x / unit) * unit
        slices.append(part)
        x = x - part
    return slices


def exact_dot(left: list[Array], right: list[Array]) -> tuple[Words, Array]:
    """The dot products of all rows, hi + lo, and a bound of what the roundings lost."""
    products = [a @ b.T for a in left for b in right]
    high, low = products[0], np.zeros_like(products[0])
    lost = np.zeros_like(high)
    for product in products[1:]:
        high, rest = two_sum(high, product)
        low, dropped = two_sum(low, rest)
        high, low = two_sum(high, low)
        lost += np.abs(dropped)
    return (high, low), lost * (1 + 2.0**-40)


# --- double-double ----------------------------------------------------------------------------


def two_sum(a: Array, b: Array) -> Words:
    """a + b exactly (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def negative(words: list[Array]) -> Words:
    return -words[0], -words[1]


def plus(a: Words, b: Words) -> Words:
    """a + b, relative error <= 3 u^2 + 13 u^3 (Joldes, Muller, Popescu 2017, algorithm 6)."""
    s, e = two_sum(a[0], b[0])
    t, f = two_sum(a[1], b[1])
    s, e = fast_two_sum(s, e + t)
    return fast_two_sum(s, e + f)


def fast_two_sum(a: Array, b: Array) -> Words:
    """a + b exactly, for |a| >= |b| or a = 0 (Dekker)."""
    s = a + b
    return s, b - (s - a)


def split(a: Array | float) -> tuple[Array | float, Array | float]:
    """a = high + low with 26-bit halves (Veltkamp)."""
    c = 134217729.0 * a  # 2^27 + 1
    high = c - (c - a)
    return high, a - high


def times(a: Words, b: tuple[float, float]) -> Words:
    """a * b, relative error <= 8 u^2: the product of the high words is exact (Dekker)."""
    if b[1] == 0.0 and math.frexp(b[0])[0] in (0.5, -0.5):
        return a[0] * b[0], a[1] * b[0]
    product = a[0] * b[0]
    (high, low), (b_high, b_low) = split(a[0]), split(b[0])
    rest = ((high * b_high - product) + high * b_low + low * b_high) + low * b_low
    return fast_two_sum(product, rest + (a[0] * b[1] + a[1] * b[0]))
