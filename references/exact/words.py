"""From a number of arbitrary precision to the two float64 words of an enclosure; upper bounds."""

from __future__ import annotations

import math

import numpy as np

from references.enclosure import EXACT, FINITE, Enclosure
from references.exact.precision import Real


def nearest(mantissa: int, exponent: int) -> float:
    """
    The float64 nearest to mantissa * 2^exponent.

    Shapes      integers of any size.
    Definition  round to nearest, ties to even, subnormal numbers included.
    Guarantee   correctly rounded: Python's int / int and float(int) are.
    Requires    |mantissa| 2^exponent rounds below 2^1024 (OverflowError otherwise).
    Special     below 2^-1100 the answer is 0 without dividing.
    Source      CPython, Objects/longobject.c, long_true_divide.
    """
    if exponent >= 0:
        return float(mantissa << exponent)
    if mantissa.bit_length() + exponent < -1100:
        return 0.0
    return mantissa / (1 << -exponent)


def _less(mantissa: int, exponent: int, word: float) -> tuple[int, int]:
    """mantissa * 2^exponent - word, exactly, again as mantissa and exponent."""
    numerator, denominator = word.as_integer_ratio()
    lowest = min(exponent, 1 - denominator.bit_length())
    shift = 1 - denominator.bit_length() - lowest
    return (mantissa << (exponent - lowest)) - (numerator << shift), lowest


def up(x: float) -> float:
    """The next float64 above x >= 0, except that 0 stays 0."""
    return math.nextafter(x, math.inf) if x else 0.0


def _mantissa(x: Real) -> tuple[int, int]:
    sign, mantissa, exponent, _ = x._mpf_
    return (-int(mantissa) if sign else int(mantissa)), exponent


def words(x: Real) -> tuple[float, float, float]:
    """
    hi, lo and an upper bound of the conversion error of a finite mpmath number.

    Shapes      scalar to three floats.
    Definition  hi = float64 nearest to x; lo = float64 nearest to x - hi.
    Guarantee   |x - (hi + lo)| <= the third value, which is 0 only if hi + lo = x.
    Requires    |x| below the largest float64.
    Special     a remainder that underflows is bounded by the smallest subnormal number.
    Source      exact integer arithmetic; see `nearest`.
    """
    mantissa, exponent = _mantissa(x)
    if mantissa and mantissa.bit_length() + exponent < -1100:  # all that is left is a bound
        return 0.0, 0.0, 5e-324
    hi = nearest(mantissa, exponent)
    mantissa, exponent = _less(mantissa, exponent, hi)
    lo = nearest(mantissa, exponent)
    mantissa, exponent = _less(mantissa, exponent, lo)
    return hi, lo, _upper(abs(mantissa), exponent)


def _upper(mantissa: int, exponent: int) -> float:
    return math.nextafter(nearest(mantissa, exponent), math.inf) if mantissa else 0.0


def upper(x: Real) -> float:
    """A float64 above the mpmath number x >= 0 by at most two ulp; 0 for 0; inf past the range."""
    try:
        return _upper(*_mantissa(x))
    except OverflowError:
        return math.inf


def unknown(shape: tuple[int, ...], rows: tuple[int, ...]) -> Enclosure:
    """An enclosure about which nothing is known yet (radius +inf), to be filled in place."""
    return Enclosure(
        hi=np.zeros(shape),
        lo=np.zeros(shape),
        radius=np.full(shape, np.inf),
        classes=np.full(shape, FINITE, dtype=np.uint8),
        tier=np.full(rows, EXACT, dtype=np.uint8),
    )


Place = tuple[int, ...]


def put(truth: Enclosure, place: Place, x: Real, error: float, classes: int = FINITE) -> None:
    """Store the finite x, known up to `error`; past the range of float64 it stays unknown."""
    try:
        hi, lo, conversion = words(x)
    except OverflowError:
        hi, lo, conversion = 0.0, 0.0, math.inf
    truth.hi[place], truth.lo[place] = hi, lo
    truth.radius[place] = up(error + conversion) if error and conversion else error + conversion
    truth.classes[place] = classes


def put_special(truth: Enclosure, place: Place, value: float, classes: int) -> None:
    """Store a NaN or an infinity (or an exact float) at one place."""
    truth.hi[place], truth.lo[place], truth.radius[place] = value, 0.0, 0.0
    truth.classes[place] = classes
