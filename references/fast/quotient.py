"""The last step: O = N/l and LSE with their radii; is the radius that was asked for met?"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from references.enclosure import Array
from references.fast.compiled import fma, inlined, kernel
from references.fast.doubledouble import divide, fast_two_sum, multiply, two_sum
from references.fast.exponential import DROPPED, exponentials
from references.fast.slicing import Indices
from references.fast.weights import GROUP

U = 2.0**-53
ABOVE = 1.0 + 2.0**-20  # covers the rounding of the radius itself and second-order terms
DOMAIN = 2.0**-60  # relative errors of p above this are outside what the proof covers
# Rows of `totals`.
HIGH, LOW, ERROR, VALID, LOST, KEYS, INVERSE = range(7)


@inlined
def _add_sinks(h: Array, low: Array, reference: Array, sinks: Array) -> None:
    """l += exp(sink - reference), by the reciprocal where that is positive."""
    rows = h.shape[0]
    xh = np.empty(rows)
    xl = np.empty(rows)
    wh = np.empty(rows)
    wl = np.empty(rows)
    for i in range(rows):
        xh[i], xl[i] = two_sum(sinks[i], -reference[i])
        if xh[i] > 0.0:
            xh[i], xl[i] = -xh[i], -xl[i]
    exponentials(xh, xl, wh, wl, rows)
    for i in range(rows):
        if sinks[i] > reference[i]:
            wh[i], wl[i] = divide(1.0, 0.0, wh[i], wl[i])  # inf where the sink is 300 above
        s, e = two_sum(h[i], wh[i])
        h[i], low[i] = fast_two_sum(s, e + (low[i] + wl[i]))


@kernel("void(f8[:,::1], f8[::1], i8[::1], f8[::1], f8[::1], f8[:,::1])")
def add_up(
    sums: Array, relative: Array, keys: Indices, reference: Array, sinks: Array, totals: Array
) -> None:
    """
    The row sum l, sinks included, and its error.

    Shapes      sums: (6, r) of `cut_weights`; relative, keys, reference: (r,); sinks: (r,) or (0,);
                totals: (7, r) = l as hi and lo, its error, 1 where the proof holds, sum of the last
                slices' sizes, number of keys, 1/l rounded.
    Requires    relative_i bounds the relative error of every p_ij; keys_i >= the keys seen.
    Source      docs/theory/fast-oracle.md, parts 4 and 6.
    """
    rows = relative.shape[0]
    for i in range(rows):
        h, e = two_sum(sums[0, i], sums[1, i])
        h, e2 = two_sum(h, sums[2, i])
        h, e3 = two_sum(h, sums[3, i])
        totals[HIGH, i], totals[LOW, i] = fast_two_sum(h, ((e + e2) + e3) + sums[4, i])
    if sinks.shape[0] > 0:
        _add_sinks(totals[HIGH], totals[LOW], reference, sinks)
    for i in range(rows):
        n = float(keys[i])
        lh = totals[HIGH, i]
        lost = sums[5, i] * ABOVE
        error = relative[i] * lh + (GROUP + 4) * U * lost + n * DROPPED + 2.0**-102 * lh
        valid = 0.0 <= relative[i] < DOMAIN and 0.0 <= error < 2.0**-30 * lh and lh < math.inf
        totals[ERROR, i] = error
        totals[VALID, i] = 1.0 if valid else 0.0
        totals[LOST, i] = lost
        totals[KEYS, i] = n
        totals[INVERSE, i] = 1.0 / lh


@kernel(
    "void(f8[:,::1], f8[:,::1], f8[:,::1], f8[::1], f8[:,::1], f8[:,::1], i8, i8, i8, i8, i8, f8,"
    "f8[:,:,::1], u1[::1])"
)
def averages(
    n_h: Array,
    n_l: Array,
    magnitude: Array,
    relative: Array,
    totals: Array,
    columns: Array,
    chunk: int,
    panel: int,
    chunks: int,
    bits: int,
    slices: int,
    request: float,
    output: Array,
    certified: NDArray[np.uint8],
) -> None:
    """
    O = N/l, radius and magnitude of a block of rows.

    Shapes      n_h, n_l, magnitude: (d_v, r), the sums of p v and p |v|; relative, certified: (r,);
                totals: (7, r) of `add_up`; columns: (6, d_v) of `Values`; output: (4, d_v, r) = hi,
                lo, radius, magnitude.
    Definition  O = N/l, magnitude = sum p |v| / l.
    Guarantee   |O - (hi + lo)| <= radius; certified_i = 1 only where radius <= request magnitude in
                every column.
    Special     outside the domain of the proof: radius inf.
    Source      docs/theory/fast-oracle.md, part 6.
    """
    d, rows = n_h.shape
    narrower = 2.0**-bits
    if slices == 3:
        last = 2.0 ** (-2 * bits - 2) + U
        left = narrower
    else:
        last = 2.0 ** (-3 * bits - 2) + 2.0 ** (-2 * bits - 55)
        left = 2.0 ** (-2 * bits - 1)
    panels = chunks // panel + 1
    added = 8.0 * (chunks + 1) * (chunks + 1) * U * U
    steps = (chunk + panel + 2 * panels + 4) * U
    missed = np.zeros(rows)
    for k in range(d):
        largest = columns[0, k]
        unit = columns[2, k]
        top = largest + unit
        listed = U * (min(columns[5, k], float(chunk * panel)) + 3.0 * panels + 4.0)
        for i in range(rows):
            lh = totals[HIGH, i]
            n = totals[KEYS, i]
            inverse = totals[INVERSE, i]
            nh, nl = two_sum(n_h[k, i], n_l[k, i])
            q = nh * inverse
            r = fma(-q, lh, nh) + fma(-q, totals[LOW, i], nl)
            qh, ql = fast_two_sum(q, r * inverse)
            a = magnitude[k, i]
            summed = min(columns[1, k], n * largest) + n * unit
            error = relative[i] * a
            error += added * (a + narrower * summed + n * unit)
            error += steps * min(totals[LOST, i] * top, last * summed)
            error += listed * (left * min(columns[3, k], n * unit) + columns[4, k] * lh * ABOVE)
            error += n * DROPPED * top
            radius = (error + abs(qh) * totals[ERROR, i]) * inverse * ABOVE + 2.0**-99 * abs(qh)
            size = a * inverse
            # & instead of `and`: no branches, so that the loop becomes vector code.
            sound = (totals[VALID, i] == 1.0) & (radius >= 0.0) & (radius < math.inf)
            met = sound & (radius * ABOVE <= request * size)
            output[0, k, i] = qh
            output[1, k, i] = ql
            output[2, k, i] = radius if sound else math.inf
            output[3, k, i] = size
            missed[i] += 0.0 if met else 1.0
    for i in range(rows):
        certified[i] = 1 if (missed[i] == 0.0) & (totals[VALID, i] == 1.0) else 0


@kernel("void(f8[:,::1], f8[::1], f8, f8, f8, f8[:,::1], u1[::1])")
def logarithms(
    totals: Array,
    reference: Array,
    scale_h: float,
    scale_l: float,
    request: float,
    lse: Array,
    certified: NDArray[np.uint8],
) -> None:
    """
    LSE = reference scale + ln l of a block of rows.

    Shapes      totals: (7, r) of `add_up`; reference, certified: (r,);
                lse: (3, r) = hi, lo, radius.
    Guarantee   |LSE - (hi + lo)| <= radius; certified_i stays 1 only where radius <= request
                max(1, |LSE|).
    Special     outside the domain of the proof: radius inf.
    Source      docs/theory/fast-oracle.md, part 6.
    """
    rows = reference.shape[0]
    y = np.empty(rows)
    wh = np.empty(rows)
    wl = np.empty(rows)
    for i in range(rows):
        y[i] = -math.log(totals[HIGH, i])
    exponentials(y, np.zeros(rows), wh, wl, rows)
    for i in range(rows):
        ph, pl = multiply(totals[HIGH, i], totals[LOW, i], wh[i], wl[i])
        s, e = two_sum(ph, -1.0)
        small = s + (e + pl)
        first = reference[i] * scale_h
        low = fma(reference[i], scale_h, -first) + reference[i] * scale_l
        h, e = two_sum(first, -y[i])
        h, e = fast_two_sum(h, e + (low + (small - 0.5 * small * small)))
        radius = totals[ERROR, i] / totals[HIGH, i] * ABOVE + 2.0**-96 + 4.0 * U * abs(small)
        radius += 2.0**-101 * (abs(first) + abs(y[i]))
        sound = totals[VALID, i] == 1.0 and abs(small) < 2.0**-40 and radius < math.inf
        lse[0, i] = h
        lse[1, i] = e
        lse[2, i] = radius if sound else math.inf
        if not (sound and radius <= request * max(1.0, abs(h))):
            certified[i] = 0
