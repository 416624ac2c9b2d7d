"""Pairs hi + lo of binary64 numbers: the few operations that the fast tier uses, with their errors.

u = 2^-53.  Each step holds for round-to-nearest without overflow; docs/theory/fast-oracle.md cites
the lemmas by these names.
"""

from __future__ import annotations

from references.fast.compiled import fma, inlined


@inlined
def two_sum(a: float, b: float) -> tuple[float, float]:
    """s + e = a + b exactly, s = fl(a + b).  Knuth, any order of magnitudes."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@inlined
def fast_two_sum(a: float, b: float) -> tuple[float, float]:
    """s + e = a + b exactly where |a| >= |b| or a = 0.  Dekker."""
    s = a + b
    return s, b - (s - a)


@inlined
def multiply(ah: float, al: float, bh: float, bl: float) -> tuple[float, float]:
    """(ah + al)(bh + bl) up to 8 u^2 of itself, for |al| <= u |ah|, |bl| <= u |bh|."""
    p = ah * bh
    return fast_two_sum(p, fma(ah, bh, -p) + fma(ah, bl, al * bh))


@inlined
def divide(ah: float, al: float, bh: float, bl: float) -> tuple[float, float]:
    """(ah + al)/(bh + bl) up to 32 u^2 of itself, for |al| <= 2 u |ah|, |bl| <= u |bh|."""
    q = ah / bh
    r = fma(-q, bh, ah) + fma(-q, bl, al)
    return fast_two_sum(q, r / bh)
