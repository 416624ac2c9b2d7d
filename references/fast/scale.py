"""The factor of the scores as a double-double number."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache


@cache
def reciprocal_root(d: int) -> tuple[float, float]:
    """
    1/sqrt(d) as hi + lo.

    Shapes      scalar.
    Guarantee   |1/sqrt(d) - (hi + lo)| <= 2^-106 / sqrt(d).
    Requires    d >= 1.
    Source      integer square root: floor(2^200/sqrt(d)) = isqrt(2^400 // d).
    """
    root = Fraction(math.isqrt((1 << 400) // d), 1 << 200)
    hi = float(root)
    return hi, float(root - Fraction(hi))


def double_double(scale: float | None, d: int) -> tuple[float, float]:
    """The scale as hi + lo: 1/sqrt(d) up to 2^-106 of itself for None, else exactly the float."""
    return reciprocal_root(d) if scale is None else (float(scale), 0.0)
