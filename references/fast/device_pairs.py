"""Double-double arithmetic and exp on torch float64 tensors, without FMA.

Every operation is a torch call of its own, so that nothing is contracted.  The error of a product
comes from splitting both factors; docs/theory/fast-oracle.md, part 9, says what that changes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from references.fast.exponential import (
    C3,
    C3_TAIL,
    C4,
    C5,
    C6,
    C7,
    ONE_EXPONENT,
    ROUNDER,
    ROUNDER_BITS,
    STEP_HEAD,
    STEP_MIDDLE,
    STEP_TAIL,
    STEPS,
    STEPS_BITS,
    STEPS_PER_UNIT,
    TABLE_HEAD,
    TABLE_TAIL,
    X_MIN,
)

SPLITTER = 2.0**27 + 1.0
Pair = tuple[Tensor, Tensor]
Factor = Tensor | float


def two_sum(a: Tensor, b: Factor) -> Pair:
    """s + e = a + b exactly, s = fl(a + b).  Knuth."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def fast_two_sum(a: Tensor, b: Tensor) -> Pair:
    """s + e = a + b exactly where |a| >= |b| or a = 0.  Dekker."""
    s = a + b
    return s, b - (s - a)


def _split(a: Factor) -> tuple[Factor, Factor]:
    """a = high + low, 26 bits each.  Veltkamp, for |a| < 2^996."""
    c = a * SPLITTER
    high = c - (c - a)
    return high, a - high


def product_error(a: Factor, b: Factor, p: Factor) -> Tensor:
    """a b - p exactly, for p = fl(a b) of size 2^-960 to 2^990; below, up to 2^-1070.  Dekker."""
    ah, al = _split(a)
    bh, bl = _split(b)
    error = ((ah * bh - p) + ah * bl + al * bh) + al * bl
    assert isinstance(error, Tensor)
    return error


def divide(ah: Tensor, al: Tensor, b: Factor, bl: Factor) -> Pair:
    """(ah + al)/(b + bl) up to 32 u^2 of itself, for |al| <= 2 u |ah|, |bl| <= u |b|."""
    q = ah / b
    p = q * b
    r = ((ah - p) - product_error(q, b, p)) + (al - q * bl)
    return fast_two_sum(q, r / b)


class Exponential:
    """exp on one device, with its table there."""

    def __init__(self, device: str) -> None:
        self.head = torch.from_numpy(TABLE_HEAD).to(device)
        self.tail = torch.from_numpy(TABLE_TAIL).to(device)

    def __call__(self, xh: Tensor, xl: Tensor) -> Pair:
        """
        exp(xh + xl) = (ph + pl)(1 + e).

        Shapes      any, the same for all.
        Guarantee   |e| <= 2^-100 + |x| 2^-102 for X_MIN <= xh; ph + pl = 0 below; |pl| <= u ph.
        Requires    xh <= 2^-20, |xl| <= u |xh|, round to nearest.
        Source      docs/theory/fast-oracle.md, parts 3 and 9.
        """
        x = xh.clamp(min=X_MIN - 1.0)
        shifted = x * STEPS_PER_UNIT + ROUNDER
        k = shifted.view(torch.int64) - ROUNDER_BITS
        u2, el = _expm1(*_reduced(x, xl, shifted - ROUNDER))
        index = k & (STEPS - 1)
        t1, t2 = self.head[index], self.tail[index]
        a = t1 * u2
        y = t1 * el + (t2 * u2 + product_error(t1, u2, a))
        h = t1 + a
        low = ((a - (h - t1)) + t2) + y
        high = h + low
        low = low - (high - h)
        exponent = torch.where(x < X_MIN, 0, (k >> STEPS_BITS) + ONE_EXPONENT)
        power = (exponent << 52).view(torch.float64)
        return high * power, low * power


def _reduced(x: Tensor, xl: Tensor, k: Tensor) -> Pair:
    """rh, rl with x + xl = k ln2/1024 + rh + rl."""
    a = x - k * STEP_HEAD  # exact: k STEP_HEAD has at most 51 bits
    b = k * STEP_MIDDLE
    rh = a - b
    return rh, ((a - rh) - b) + (xl - k * STEP_TAIL)


def _expm1(rh: Tensor, rl: Tensor) -> Pair:
    """exp(rh + rl) - 1 as u2 + el, for |rh| <= 2^-11.5."""
    s = rh * rh
    sl = product_error(rh, rh, s)
    g = rh * s
    gl = rh * sl + product_error(rh, s, g)
    c0 = g * C3
    c0l = g * C3_TAIL + (gl * C3 + product_error(g, C3, c0))
    q = ((rh * C7 + C6) * rh + C5) * rh + C4
    u = 0.5 * s + rh
    ul = 0.5 * s + (rh - u)
    u2 = u + c0
    ul2 = c0 - (u2 - u)
    el = 0.5 * sl + (rl * (0.5 * rl + u2) + rl)
    return u2, (ul + ul2) + ((g * rh) * q + (c0l + el))


def tree_sum(x: Tensor, low: Tensor | None = None) -> Pair:
    """
    The sum over the last axis as high + low, halves added to halves.

    Shapes      x, low: (..., m); returns (...,) twice.
    Guarantee   the error is at most (L + 1)^2 u^2 sum |x|, L = ceil(log2 m), besides a rounding
                of the low words that are passed in.
    Source      docs/theory/fast-oracle.md, part 9.
    """
    while x.shape[-1] > 1:
        half = (x.shape[-1] + 1) // 2
        rest = x.shape[-1] - half
        s, e = two_sum(x[..., :rest], x[..., half:])
        if low is not None:
            e = e + (low[..., :rest] + low[..., half:])
        if rest < half:
            spare = x[..., rest:half]
            s = torch.cat((s, spare), dim=-1)
            kept = torch.zeros_like(spare) if low is None else low[..., rest:half]
            e = torch.cat((e, kept), dim=-1)
        x, low = s, e
    total = x.squeeze(-1) if x.shape[-1] else x.sum(dim=-1)
    return total, torch.zeros_like(total) if low is None else low.squeeze(-1)
