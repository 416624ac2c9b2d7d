"""Scores with softcap, bias and sink: kernels that are compiled when a call first asks for them.

docs/theory/fast-oracle.md, part 2.
"""

from __future__ import annotations

import numpy as np

from references.enclosure import Array
from references.fast.compiled import fma, kernel
from references.fast.doubledouble import divide, fast_two_sum, two_sum
from references.fast.exponential import exponentials


@kernel("void(f8[::1], f8[::1], i8, f8, f8[::1], f8[::1])")
def twice_quotients(h: Array, e: Array, n: int, softcap: float, xh: Array, xl: Array) -> None:
    """xh + xl = -2 |h + e|/softcap up to 32 u^2 of itself, the first n elements."""
    for i in range(n):
        z, low = divide(h[i], e[i], softcap, 0.0)
        sign = -2.0 if z > 0.0 else 2.0
        xh[i] = sign * z
        xl[i] = sign * low


@kernel("void(f8[::1], f8[::1], i8, f8, f8[::1], f8[::1])")
def cap(h: Array, e: Array, n: int, softcap: float, wh: Array, wl: Array) -> None:
    """
    (h, e) = softcap tanh(t/softcap) = +- softcap (1 - w)/(1 + w), w = exp(-2 |t|/softcap).

    Shapes      all (>= n,).
    Guarantee   error <= 2^-98 softcap for w of `exponentials`; the sign is that of h.
    Source      docs/theory/fast-oracle.md, part 2.
    """
    for i in range(n):
        nh, nl = two_sum(1.0, -wh[i])
        nh, nl = fast_two_sum(nh, nl - wl[i])
        dh, dl = two_sum(1.0, wh[i])
        dh, dl = fast_two_sum(dh, dl + wl[i])
        q, low = divide(nh, nl, dh, dl)
        c = softcap if h[i] > 0.0 else -softcap
        p = q * c
        h[i], e[i] = fast_two_sum(p, fma(q, c, -p) + low * c)


@kernel("void(f8[::1], f8[::1], i8, f8[::1], f8[::1])")
def slopes(wh: Array, wl: Array, n: int, sh: Array, sl: Array) -> None:
    """
    sh + sl = 4 w/(1 + w)^2 = 1 - tanh^2, the slope of the softcap, for the w of `cap`.

    Shapes      all (>= n,).
    Guarantee   error <= 2^-99 of itself for exact w.
    Source      docs/theory/fast-oracle.md, part 11.
    """
    for i in range(n):
        dh, dl = two_sum(1.0, wh[i])
        dh, dl = fast_two_sum(dh, dl + wl[i])
        qh, ql = divide(4.0 * wh[i], 4.0 * wl[i], dh, dl)
        sh[i], sl[i] = divide(qh, ql, dh, dl)


@kernel("void(f8[::1], f8[::1], i8, f8[:,::1], i8, f8[:,::1], f8[:,::1])")
def add_bias(h: Array, e: Array, j0: int, bias: Array, keys: int, high: Array, low: Array) -> None:
    """high + low = h + e + bias for `keys` keys from j0 on, normalised; bias (0, 0): none.

    Guarantee   an error of 2^-103 (|h| + |high|).
    """
    rows = high.shape[1]
    for j in range(keys):
        for i in range(rows):
            b = bias[j0 + j, i] if bias.shape[0] > 0 else 0.0
            s, error = two_sum(h[j * rows + i], b)
            high[j0 + j, i], low[j0 + j, i] = fast_two_sum(s, error + e[j * rows + i])


@kernel("void(f8, f8[::1], f8[:,::1])")
def sink_weights(sink: float, reference: Array, weights: Array) -> None:
    """
    exp(sink - reference) as hi and lo, by the reciprocal where that is positive.

    Shapes      reference: (r,); weights: (2, r).
    Special     inf where the sink is 300 above the reference.
    Source      docs/theory/fast-oracle.md, part 6.
    """
    rows = reference.shape[0]
    xh = np.empty(rows)
    xl = np.empty(rows)
    for i in range(rows):
        xh[i], xl[i] = two_sum(sink, -reference[i])
        if xh[i] > 0.0:
            xh[i], xl[i] = -xh[i], -xl[i]
    exponentials(xh, xl, weights[0], weights[1], rows)
    for i in range(rows):
        if sink > reference[i]:
            weights[0, i], weights[1, i] = divide(1.0, 0.0, weights[0, i], weights[1, i])
