"""The last step: O = N/l and LSE with their radii; is the radius that was asked for met?"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from references.enclosure import Array
from references.fast.compiled import fma, kernel
from references.fast.doubledouble import divide, fast_two_sum, multiply, two_sum
from references.fast.exponential import DROPPED, exponentials
from references.fast.slicing import Indices
from references.fast.weights import GROUP

U = 2.0**-53
ABOVE = 1.0 + 2.0**-20  # covers the rounding of the radius itself and second-order terms
DOMAIN = 2.0**-60  # relative errors of p above this are outside what the proof covers


@kernel(
    "void(f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[::1], i8[::1], f8[:,::1], f8[::1], f8, f8,"
    "f8[::1], i8, i8, i8, i8, i8, f8, f8[:,:,::1], f8[:,::1], u1[::1])"
)
def finish(
    n_h: Array,
    n_l: Array,
    sums: Array,
    magnitude: Array,
    relative: Array,
    keys: Indices,
    columns: Array,
    reference: Array,
    scale_h: float,
    scale_l: float,
    sinks: Array,
    chunk: int,
    panel: int,
    chunks: int,
    bits: int,
    slices: int,
    request: float,
    output: Array,
    lse: Array,
    certified: NDArray[np.uint8],
) -> None:
    """
    Output, radius, magnitude and LSE of a block of rows.

    Shapes      n_h, n_l, magnitude: (d_v, r), the sums of p v and p |v|; sums: (6, r) of
                `cut_weights`; relative, keys, reference, certified: (r,); columns: (6, d_v) of
                `Values`; sinks: (r,) or (0,);
                output: (4, r, d_v) = hi, lo, radius, magnitude; lse: (3, r) = hi, lo, radius.
    Definition  O = N/l, magnitude = sum p |v| / l, LSE = reference scale + ln l.
    Guarantee   |O - (hi + lo)| <= radius, |LSE - (hi + lo)| <= radius; certified_i = 1 only where
                radius <= request magnitude in every column and <= request max(1, |LSE|) for LSE.
    Requires    relative_i bounds the relative error of every p_ij; keys_i >= the keys seen.
    Special     outside the domain of the proof: radius inf.
    Source      docs/theory/fast-oracle.md, part 6.
    """
    d, rows = n_h.shape
    if slices == 3:
        last = 2.0 ** (-2 * bits - 2) + U
    else:
        last = 2.0 ** (-3 * bits - 2) + 2.0 ** (-2 * bits - 55)
    narrower = 2.0**-bits
    left = narrower if slices == 3 else 2.0 ** (-2 * bits - 1)
    added = 8.0 * (chunks + 1) * (chunks + 1) * U * U
    panels = chunks // panel + 1
    steps = (chunk + panel + 2 * panels + 4) * U
    lh = np.empty(rows)
    ll = np.empty(rows)
    for i in range(rows):
        h, e = two_sum(sums[0, i], sums[1, i])
        h, e2 = two_sum(h, sums[2, i])
        h, e3 = two_sum(h, sums[3, i])
        lh[i], ll[i] = fast_two_sum(h, ((e + e2) + e3) + sums[4, i])
    xh = np.empty(rows)
    xl = np.empty(rows)
    wh = np.empty(rows)
    wl = np.empty(rows)
    if sinks.shape[0] > 0:
        for i in range(rows):
            xh[i], xl[i] = two_sum(sinks[i], -reference[i])
            if xh[i] > 0.0:
                xh[i], xl[i] = -xh[i], -xl[i]
        exponentials(xh, xl, wh, wl, rows)
        for i in range(rows):
            if sinks[i] > reference[i]:
                wh[i], wl[i] = divide(1.0, 0.0, wh[i], wl[i])  # inf where the sink is 300 above
            h, e = two_sum(lh[i], wh[i])
            lh[i], ll[i] = fast_two_sum(h, e + (ll[i] + wl[i]))
    for i in range(rows):
        xh[i] = -math.log(lh[i])
        xl[i] = 0.0
    exponentials(xh, xl, wh, wl, rows)
    for i in range(rows):
        n = float(keys[i])
        inverse = 1.0 / lh[i]
        lost = sums[5, i] * ABOVE
        error_l = relative[i] * lh[i] + (GROUP + 4) * U * lost + n * DROPPED + 2.0**-102 * lh[i]
        valid = 0.0 <= relative[i] < DOMAIN and 0.0 <= error_l < 2.0**-30 * lh[i]
        valid = valid and lh[i] < math.inf
        good = valid
        for k in range(d):
            nh, nl = two_sum(n_h[k, i], n_l[k, i])
            q = nh * inverse
            r = fma(-q, lh[i], nh) + fma(-q, ll[i], nl)
            qh, ql = fast_two_sum(q, r * inverse)
            a = magnitude[k, i]
            top = columns[0, k] + columns[2, k]
            summed = min(columns[1, k], n * columns[0, k]) + n * columns[2, k]
            error = relative[i] * a + added * (a + narrower * summed + n * columns[2, k])
            error += steps * min(lost * top, last * summed)
            listed = min(columns[5, k], float(chunk * panel)) + 3.0 * panels + 4.0
            rest = min(columns[3, k], n * columns[2, k])
            error += U * listed * (left * rest + columns[4, k] * lh[i] * ABOVE)
            error += n * DROPPED * top
            radius = (error + abs(qh) * error_l) * inverse * ABOVE + 2.0**-99 * abs(qh)
            output[0, i, k] = qh
            output[1, i, k] = ql
            sound = valid and 0.0 <= radius < math.inf
            output[2, i, k] = radius if sound else math.inf
            output[3, i, k] = a * inverse
            if not (sound and radius * ABOVE <= request * output[3, i, k]):
                good = False
        ph, pl = multiply(lh[i], ll[i], wh[i], wl[i])
        s, e = two_sum(ph, -1.0)
        small = s + (e + pl)
        first = reference[i] * scale_h
        low = fma(reference[i], scale_h, -first) + reference[i] * scale_l
        h, e = two_sum(first, -xh[i])
        h, e = fast_two_sum(h, e + (low + (small - 0.5 * small * small)))
        radius = error_l / lh[i] * ABOVE + 2.0**-96 + 4.0 * U * abs(small)
        radius += 2.0**-101 * (abs(first) + abs(xh[i]))
        lse[0, i] = h
        lse[1, i] = e
        lse[2, i] = radius if valid and abs(small) < 2.0**-40 else math.inf
        if not (lse[2, i] < math.inf and lse[2, i] <= request * max(1.0, abs(h))):
            good = False
        certified[i] = 1 if good else 0
