"""Sums x^T v of double-double x and sliced v, with the terms of their radius.

x is (contraction, lanes): each lane has its own grid, relative to its largest element, and gets a
row of sums.  For dQ the lanes are queries and the contraction runs over the keys; for dK and dV the
lanes are keys and it runs over the rows of a block.  docs/theory/fast-oracle.md, part 12.
"""

from __future__ import annotations

import numpy as np

from references.enclosure import Array
from references.fast.block import add_panel
from references.fast.compiled import kernel
from references.fast.doubledouble import multiply, two_sum
from references.fast.prepared import CHUNK, Values
from references.fast.quotient import ABOVE, Averages, U
from references.fast.scratch import scratch
from references.fast.slicing import ENTRIES, LARGEST, REST, SUM, TAIL, UNIT

FLOOR = 2.0**-400  # above whatever underflow loses


@kernel("void(f8[:,::1], f8[:,::1], f8[::1], i8, f8[:,:,::1], f8[:,::1])")
def cut_lanes(xh: Array, xl: Array, scale: Array, bits: int, p: Array, sums: Array) -> None:
    """
    x = xh + xl in slices, as `cut_weights` cuts p, on grids relative to scale.

    Shapes      xh, xl: (n, lanes); scale: (lanes,), powers of two or 0; p: (>= n, slices, lanes);
                sums: (2, lanes) = sum of the last slices' sizes, sum |xh|.
    Guarantee   exact but for one rounding of the last slice.
    Requires    |xh| <= scale, |xl| <= u |xh|, 3 or 4 slices.
    """
    n, lanes = xh.shape
    c1 = 1.5 * 2.0 ** (52 - bits)
    c2 = 1.5 * 2.0 ** (51 - 2 * bits)
    c3 = 1.5 * 2.0 ** (51 - 3 * bits)
    four = p.shape[1] == 4
    sums[:] = 0.0
    for j in range(n):
        for i in range(lanes):
            h = xh[j, i]
            low = xl[j, i]
            rounder = c1 * scale[i]
            p1 = (h + rounder) - rounder
            r = h - p1
            rounder = c2 * scale[i]
            p2 = ((r + low) + rounder) - rounder
            r -= p2
            p[j, 0, i] = p1
            p[j, 1, i] = p2
            sums[1, i] += abs(h)
            if four:
                rounder = c3 * scale[i]
                p3 = ((r + low) + rounder) - rounder
                last = (r - p3) + low
                p[j, 2, i] = p3
                p[j, 3, i] = last
                sums[0, i] += abs(last)
            else:
                last = r + low
                p[j, 2, i] = last
                sums[0, i] += abs(last)


@kernel("void(f8[:,::1], f8[::1], f8[:,::1], i8, i8, i8, i8, f8[:,::1], f8[:,::1])")
def count_errors(
    columns: Array,
    scale: Array,
    sums: Array,
    n: int,
    chunks: int,
    bits: int,
    slices: int,
    error: Array,
    reach: Array,
) -> None:
    """
    Adds what one contraction of n terms rounds to error, and to reach what bounds the sizes of
    exact partial sums beside the magnitude.

    Shapes      columns: (6, d) of `Values`; scale: (lanes,); sums: (2, lanes) of `cut_lanes`;
                error, reach: (d, lanes).
    Source      docs/theory/fast-oracle.md, parts 5 and 12.
    """
    narrower = 2.0**-bits
    if slices == 3:
        last = 2.0 ** (-2 * bits - 2) + U
        left = narrower
    else:
        last = 2.0 ** (-3 * bits - 2) + 2.0 ** (-2 * bits - 55)
        left = 2.0 ** (-2 * bits - 1)
    steps = (CHUNK + chunks + 8) * U * ABOVE
    for k in range(columns.shape[1]):
        top = columns[LARGEST, k] + columns[UNIT, k]
        units = n * columns[UNIT, k]
        summed = min(columns[SUM, k], n * columns[LARGEST, k]) + units
        listed = (min(columns[ENTRIES, k], float(n)) + 8.0) * U * ABOVE
        rest = min(columns[REST, k], units)
        tail = columns[TAIL, k]
        for i in range(scale.shape[0]):
            lost = steps * min(sums[0, i] * top, scale[i] * (last * summed))
            error[k, i] += lost + listed * (scale[i] * (left * rest) + tail * sums[1, i])
            reach[k, i] += scale[i] * (narrower * summed + units)


@kernel("void(f8[:,:,::1], i8, f8[:,:,::1])")
def merge(part: Array, start: int, whole: Array) -> None:
    """Adds the sums of some lanes, from `start` on, to those of all.

    Shapes      part: (5, d, some lanes); whole: (5, d, lanes) = h, low, magnitude, error, reach.
    """
    for k in range(part.shape[1]):
        for i in range(part.shape[2]):
            o = start + i
            s, e = two_sum(whole[0, k, o], part[0, k, i])
            whole[0, k, o] = s
            whole[1, k, o] += e + part[1, k, i]
            whole[2, k, o] += part[2, k, i]
            whole[3, k, o] += part[3, k, i]
            whole[4, k, o] += part[4, k, i]


@kernel("void(f8[:,:,::1], f8, f8, f8[::1], f8[::1], f8, f8, f8[:,:,::1])")
def finish(
    sums: Array,
    scale_h: float,
    scale_l: float,
    relative: Array,
    dropped: Array,
    added: float,
    more: float,
    found: Array,
) -> None:
    """
    Values, radii and magnitudes of scale times the sums.

    Shapes      sums: (5, d, lanes); relative, dropped: (lanes,), error relative to the magnitude
                and absolute; found: (4, d, lanes) = hi, lo, radius, magnitude.
    Special     a radius that is no number becomes inf; a sum without any term is 0 exactly.
    Source      docs/theory/fast-oracle.md, part 12.
    """
    size = abs(scale_h) * ABOVE
    for k in range(sums.shape[1]):
        for i in range(sums.shape[2]):
            h, low = two_sum(sums[0, k, i], sums[1, k, i])
            hi, lo = multiply(h, low, scale_h, scale_l)
            a = sums[2, k, i]
            error = relative[i] * a + more * sums[3, k, i] + dropped[i]
            error += added * (a + sums[4, k, i])
            radius = size * error + 2.0**-100 * abs(hi) + FLOOR
            sound = (radius >= 0.0) & (radius < np.inf)
            nothing = (a == 0.0) & (sums[4, k, i] == 0.0) & (dropped[i] == 0.0)
            found[0, k, i] = hi
            found[1, k, i] = lo
            found[2, k, i] = (0.0 if nothing else radius) if sound else np.inf
            found[3, k, i] = a * abs(scale_h)
            found[4, k, i] = size * dropped[i]


class Lanes:
    """The sums of d columns for some lanes, how many chunks they hold and blocks were merged."""

    def __init__(self, d: int, lanes: int) -> None:
        self.sums = np.zeros((5, d, lanes))
        self.chunks = self.merges = 0

    def add(
        self, xh: Array, xl: Array, size: Array, values: Values, start: int, slices: int
    ) -> None:
        """
        Adds x^T v over the rows of v from start on, and size^T |v| to the magnitude.

        Shapes      xh, xl, size: (n, lanes), contiguous.
        Requires    start a multiple of CHUNK; |xl| <= u |xh|; |x| <= size (1 + 2^-30).
        """
        n, lanes = xh.shape
        chunks = -(-n // CHUNK)
        padded = chunks * CHUNK
        fraction, exponent = np.frexp(np.abs(xh).max(axis=0))
        scale = np.where(fraction > 0.0, np.ldexp(1.0, exponent), 0.0)
        p, sums = scratch("p", padded, slices, lanes), np.empty((2, lanes))
        cut_lanes(xh, xl, scale, values.bits, p, sums)
        weights = scratch("size", padded, lanes)
        weights[:n], weights[n:], p[n:] = size, 0.0, 0.0
        h, low, magnitude, error, reach = self.sums
        total = Averages(h, low, magnitude, sums)
        add_panel(total, p, weights.reshape(-1), values, start, start + n)
        count_errors(values.columns, scale, sums, n, chunks, values.bits, slices, error, reach)
        self.chunks += chunks

    def merge(self, part: Lanes, start: int) -> None:
        """Adds a block's sums for the lanes from `start` on."""
        merge(part.sums, start, self.sums)
        self.chunks += part.chunks
        self.merges += 1

    def finished(self, scale: tuple[float, float], relative: Array, dropped: Array) -> Array:
        """(5, d, lanes): hi, lo, radius, magnitude of scale times the sums, part of the radius.

        relative, dropped: (lanes,), the error of every x relative to its size, and what else the
        sums lack, whose part of the radius is the last.
        """
        found = np.empty((5, *self.sums.shape[1:]))
        added = 32.0 * (self.chunks + self.merges + 1) ** 2 * U * U
        more = 1.0 + self.merges / 8
        finish(self.sums, *scale, relative, dropped, added, more, found)
        return found
