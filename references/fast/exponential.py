"""exp of a double-double in [X_MIN, 0]: table of 2^(j/1024), reduction in three parts, Taylor.

Every constant is named and bounded in docs/theory/fast-oracle.md, part 3; the tests enumerate the
table and the polynomial with Arb.
"""

from __future__ import annotations

from fractions import Fraction
from math import factorial, isqrt

import numpy as np

from references.enclosure import Array
from references.fast.compiled import bits_of_float, float_of_bits, fma, inlined, kernel

STEPS_BITS = 10
STEPS = 1 << STEPS_BITS
X_MIN = -300.0  # below, exp is taken as 0: an absolute error of exp(-300) < 2^-432
DROPPED = 2.0**-432
WORKING_BITS = 256  # of the integers that make the constants


def _rounded(value: int, bits: int) -> int:
    """value 2^-WORKING_BITS rounded to a multiple of 2^-bits, as an integer at WORKING_BITS."""
    step = 1 << (WORKING_BITS - bits)
    return (value + step // 2) // step * step


def _float(value: int) -> float:
    return float(Fraction(value, 1 << WORKING_BITS))


def _ln2() -> int:
    """ln 2 = sum 1/(n 2^n), truncated; the error is below 2^-(WORKING_BITS - 10)."""
    return sum((1 << (WORKING_BITS - n)) // n for n in range(1, WORKING_BITS + 1))


def _powers() -> list[int]:
    """2^(j/1024) at WORKING_BITS: ten integer square roots of 2, then products; error < 2^-240."""
    root = 2 << WORKING_BITS
    roots = []
    for _ in range(STEPS_BITS):
        root = isqrt(root << WORKING_BITS)
        roots.append(root)
    powers = [1 << WORKING_BITS]
    for root in reversed(roots):
        powers += [power * root >> WORKING_BITS for power in powers]
    return powers


_LN2 = _ln2()
_POWERS = _powers()
_STEP = _LN2 >> STEPS_BITS
_HEAD = _rounded(_STEP, 42)
_MIDDLE = _rounded(_STEP - _HEAD, 74)

STEPS_PER_UNIT = float(Fraction(1 << WORKING_BITS, _STEP))
STEP_HEAD = _float(_HEAD)
STEP_MIDDLE = _float(_MIDDLE)
STEP_TAIL = _float(_STEP - _HEAD - _MIDDLE)
TABLE_HEAD: Array = np.array([_float(power) for power in _POWERS])
TABLE_TAIL: Array = np.array(
    [float(Fraction(p, 1 << WORKING_BITS) - Fraction(_float(p))) for p in _POWERS]
)
C3, C4, C5, C6, C7 = (float(Fraction(1, factorial(n))) for n in range(3, 8))
C3_TAIL = float(Fraction(1, 6) - Fraction(C3))

ROUNDER = 1.5 * 2.0**52  # x + ROUNDER is x rounded to an integer, held in the low bits
ROUNDER_BITS = int(np.float64(ROUNDER).view(np.int64))
ONE_EXPONENT = 1023


@inlined
def _reduce(x: float, xl: float) -> tuple[int, float, float]:
    """k, rh, rl with x + xl = k ln2/1024 + rh + rl."""
    kd = fma(x, STEPS_PER_UNIT, ROUNDER)
    kf = kd - ROUNDER
    a = fma(-kf, STEP_HEAD, x)
    b = kf * STEP_MIDDLE
    rh = a - b
    return bits_of_float(kd) - ROUNDER_BITS, rh, ((a - rh) - b) + fma(-kf, STEP_TAIL, xl)


@inlined
def _expm1(rh: float, rl: float) -> tuple[float, float]:
    """exp(rh + rl) - 1 as u2 + el, for |rh| <= 2^-11.5."""
    s = rh * rh
    sl = fma(rh, rh, -s)
    g = rh * s
    gl = fma(rh, sl, fma(rh, s, -g))
    c0 = g * C3
    c0l = fma(g, C3_TAIL, fma(gl, C3, fma(g, C3, -c0)))
    q = fma(rh, fma(rh, fma(rh, C7, C6), C5), C4)
    u = fma(0.5, s, rh)
    ul = fma(0.5, s, rh - u)
    u2 = u + c0
    ul2 = c0 - (u2 - u)
    el = fma(0.5, sl, fma(rl, fma(0.5, rl, u2), rl))
    return u2, (ul + ul2) + fma(g * rh, q, c0l + el)


@kernel("void(f8[::1], f8[::1], f8[::1], f8[::1], i8)")
def exponentials(xh: Array, xl: Array, ph: Array, pl: Array, n: int) -> None:
    """
    exp(xh + xl) = (ph + pl)(1 + e) for the first n elements.

    Shapes      xh, xl, ph, pl: (>= n,).
    Definition  p = exp(xh + xl).
    Guarantee   |e| <= 2^-100 + |x| 2^-102 for X_MIN <= xh; ph + pl = 0 below; |pl| <= u ph.
    Requires    xh <= 2^-20, |xl| <= u |xh|, round to nearest, a true FMA.
    Special     xh = -inf gives 0.  NaN and positive xh: without error bound.
    Source      docs/theory/fast-oracle.md, part 3.
    """
    for j in range(n):
        x = max(xh[j], X_MIN - 1.0)
        k, rh, rl = _reduce(x, xl[j])
        u2, el = _expm1(rh, rl)
        index = np.uintp(k & (STEPS - 1))
        t1 = TABLE_HEAD[index]
        t2 = TABLE_TAIL[index]
        a = t1 * u2
        y = fma(t1, el, fma(t2, u2, fma(t1, u2, -a)))
        h = t1 + a
        low = ((a - (h - t1)) + t2) + y
        hn = h + low
        low = low - (hn - h)
        exponent = (k >> STEPS_BITS) + ONE_EXPONENT
        if x < X_MIN:
            exponent = 0
        power = float_of_bits(exponent << 52)
        ph[j] = hn * power
        pl[j] = low * power
