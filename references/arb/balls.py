"""Between float64 arrays and balls, exactly or outwards."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from references.enclosure import ARB, FINITE, Array, Enclosure

Ball = Any  # python-flint ships no annotations that mypy reads


def power_of_two(exponent: int) -> Ball:
    """2^exponent, an exact ball."""
    return arb(2) ** exponent


def integers(x: Array) -> tuple[list[list[int]], int]:
    """
    A finite matrix as integers and one exponent.

    Shapes      x: (rows, columns) to nested lists of the same shape.
    Definition  x = integers * 2^exponent, the exponent being that of the lowest bit set in x.
    Guarantee   exact.
    Requires    x finite.
    Special     a zero (or empty) matrix has exponent 0.
    Source      frexp: x = m 2^e, m 2^53 an integer.
    """
    fraction, exponent = np.frexp(x)
    mantissa = np.ldexp(fraction, 53).astype(np.int64)
    lowest_bit = np.frexp((mantissa & -mantissa).astype(np.float64))[1] - 1
    lowest = (exponent - 53 + lowest_bit)[mantissa != 0].min(initial=2000)
    if lowest == 2000:
        return [[0] * x.shape[1] for _ in x], 0
    shift = exponent - 53 - lowest
    if shift.max(initial=-100, where=mantissa != 0) <= 9:  # |m 2^53| < 2^53: fits 62 bits
        left, right = np.clip(shift, 0, 9), np.clip(-shift, 0, 63)
        small: list[list[int]] = ((mantissa << left) >> right).tolist()
        return small, int(lowest)
    pairs = zip(mantissa.tolist(), shift.tolist(), strict=True)
    return [list(map(_shifted, *pair)) for pair in pairs], int(lowest)


def _shifted(mantissa: int, shift: int) -> int:
    return mantissa << shift if shift >= 0 else mantissa >> -shift


def words(balls: list[Ball]) -> tuple[Array, Array, Array]:
    """
    The enclosure words of balls.

    Shapes      a list of length n to three arrays of length n.
    Definition  hi = float64 nearest the midpoint, lo = float64 nearest the rest.
    Guarantee   every number of the ball is within radius of hi + lo; radius = 0 only for an exact
                ball that hi + lo equals.
    Requires    nothing.
    Special     a ball that is not finite or beyond float64: hi = lo = 0, radius = +inf.
    Source      the subtractions are ball operations, hence outward; the bound is rounded upwards.
    """
    rows = [_words(ball) for ball in balls]
    table = np.array(rows, dtype=np.float64).reshape(len(rows), 3)
    return table[:, 0], table[:, 1], table[:, 2]


def _words(ball: Ball) -> tuple[float, float, float]:
    hi = float(ball)
    rest = ball - hi
    lo = float(rest)
    rest = rest - lo
    bound = float(rest.abs_upper())
    if not bound < math.inf:
        return 0.0, 0.0, math.inf
    return hi, lo, 0.0 if not bound and rest.is_zero() else math.nextafter(bound, math.inf)


def unknown(shape: tuple[int, ...], rows: tuple[int, ...]) -> Enclosure:
    """Nothing known: radius +inf everywhere."""
    zeros: NDArray[np.float64] = np.zeros(shape)
    classes = np.full(shape, FINITE, dtype=np.uint8)
    tier = np.full(rows, ARB, dtype=np.uint8)
    return Enclosure(zeros, zeros.copy(), np.full(shape, np.inf), classes, tier)


def narrow(radius: Array, hi: Array, magnitude: Array, target_bits: int) -> NDArray[np.bool_]:
    """The radius is below 2^-target of the magnitude, but for what two float64 cannot hold."""
    allowed = 2.0**-target_bits * magnitude + 2.0**-105 * np.abs(hi) + 2.0**-1073
    return np.asarray(radius <= allowed)
