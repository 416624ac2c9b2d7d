"""The last step: O = N/l and LSE with their radii; is the radius that was asked for met?"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from references.enclosure import Array
from references.fast.compiled import Flags, Indices, fma, kernel
from references.fast.doubledouble import fast_two_sum, multiply, two_sum
from references.fast.exponential import DROPPED, exponentials
from references.fast.prepared import CHUNK, GROUP, PANEL, Keys, Values
from references.fast.slicing import ENTRIES, LARGEST, REST, SUM, TAIL, UNIT

U = 2.0**-53
ABOVE = 1.0 + 2.0**-20  # covers the rounding of the radius itself and second-order terms
DOMAIN = 2.0**-60  # relative errors of p above this are outside what the proof covers
# Rows of `totals`.
HIGH, LOW, ERROR, VALID, LOST, KEYS, INVERSE, LOGARITHM = range(8)


@kernel("void(f8[:,::1], f8[::1], i8[::1], f8[:,::1], i8, f8[:,::1])")
def add_up(
    sums: Array, relative: Array, keys: Indices, sinks: Array, group: int, totals: Array
) -> None:
    """
    The row sum l, sinks included, and its error.

    Shapes      sums: (>= 6, r) of `cut_weights`, its last slices `group` at a time; relative, keys:
                (r,); sinks: (2, r) of `general.sink_weights`, or zeros;
                totals: (8, r) = l as hi and lo, its error, 1 where the proof holds, sum of the last
                slices' sizes, number of keys, 1/l rounded, about -ln l.
    Requires    relative_i bounds the relative error of every p_ij; keys_i >= the keys seen.
    Source      docs/theory/fast-oracle.md, parts 4 and 6.
    """
    rows = relative.shape[0]
    for i in range(rows):
        h, e = two_sum(sums[0, i], sums[1, i])
        h, e2 = two_sum(h, sums[2, i])
        h, e3 = two_sum(h, sums[3, i])
        h, low = fast_two_sum(h, ((e + e2) + e3) + sums[4, i])
        h, e = two_sum(h, sinks[0, i])
        lh, low = fast_two_sum(h, e + (low + sinks[1, i]))
        n = float(keys[i])
        lost = sums[5, i] * ABOVE
        error = relative[i] * lh + (group + 4) * U * lost + n * DROPPED + 2.0**-102 * lh
        valid = 0.0 <= relative[i] < DOMAIN and 0.0 <= error < 2.0**-30 * lh and lh < math.inf
        totals[HIGH, i] = lh
        totals[LOW, i] = low
        totals[ERROR, i] = error
        totals[VALID, i] = 1.0 if valid else 0.0
        totals[LOST, i] = lost
        totals[KEYS, i] = n
        totals[INVERSE, i] = 1.0 / lh
        totals[LOGARITHM, i] = -math.log(lh)


@kernel(
    "void(f8[:,::1], f8[:,::1], f8[:,::1], f8[::1], f8[:,::1], f8[:,::1], i8, i8, i8, i8, i8, f8,"
    "f8[::1], f8[:,:,::1], u1[::1])"
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
    missed: Array,
    output: Array,
    certified: Flags,
) -> None:
    """
    O = N/l, radius and magnitude of a block of rows.

    Shapes      n_h, n_l, magnitude: (d_v, r), the sums of p v and p |v|; relative, certified: (r,);
                totals: (8, r) of `add_up`; columns: (8, d_v) of `Values`; missed: (r,), room;
                output: (4, d_v, r) = hi, lo, radius, magnitude.
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
    for i in range(rows):
        missed[i] = 0.0
    for k in range(d):
        largest = columns[LARGEST, k]
        unit = columns[UNIT, k]
        rest = columns[REST, k]
        tail = columns[TAIL, k]
        top = largest + unit
        listed = U * (min(columns[ENTRIES, k], float(chunk * panel)) + 3.0 * panels + 4.0)
        for i in range(rows):
            lh = totals[HIGH, i]
            n = totals[KEYS, i]
            inverse = totals[INVERSE, i]
            nh, nl = two_sum(n_h[k, i], n_l[k, i])
            q = nh * inverse
            r = fma(-q, lh, nh) + fma(-q, totals[LOW, i], nl)
            qh, ql = fast_two_sum(q, r * inverse)
            a = magnitude[k, i]
            summed = min(columns[SUM, k], n * largest) + n * unit
            error = relative[i] * a
            error += added * (a + narrower * summed + n * unit)
            error += steps * min(totals[LOST, i] * top, last * summed)
            error += listed * (left * min(rest, n * unit) + tail * lh * ABOVE)
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


@kernel("i8(f8[:,::1], f8[:,::1], f8[::1], f8, f8, f8, f8[:,::1], u1[::1])")
def logarithms(
    totals: Array,
    inverses: Array,
    reference: Array,
    scale_h: float,
    scale_l: float,
    request: float,
    lse: Array,
    certified: Flags,
) -> int:
    """
    LSE = reference scale + ln l of a block of rows; returns how many rows are certified.

    Shapes      totals: (8, r) of `add_up`; inverses: (2, r) = exp of its last row, as hi and lo;
                reference, certified: (r,); lse: (3, r) = hi, lo, radius.
    Guarantee   |LSE - (hi + lo)| <= radius; certified_i stays 1 only where radius <= request
                max(1, |LSE|).
    Special     outside the domain of the proof: radius inf.
    Source      docs/theory/fast-oracle.md, part 6.
    """
    rows = reference.shape[0]
    count = 0
    for i in range(rows):
        y = totals[LOGARITHM, i]
        ph, pl = multiply(totals[HIGH, i], totals[LOW, i], inverses[0, i], inverses[1, i])
        s, e = two_sum(ph, -1.0)
        small = s + (e + pl)
        first = reference[i] * scale_h
        low = fma(reference[i], scale_h, -first) + reference[i] * scale_l
        h, e = two_sum(first, -y)
        h, e = fast_two_sum(h, e + (low + (small - 0.5 * small * small)))
        radius = totals[ERROR, i] / totals[HIGH, i] * ABOVE + 2.0**-96 + 4.0 * U * abs(small)
        radius += 2.0**-101 * (abs(first) + abs(y))
        sound = totals[VALID, i] == 1.0 and abs(small) < 2.0**-40 and radius < math.inf
        lse[0, i] = h
        lse[1, i] = e
        lse[2, i] = radius if sound else math.inf
        if not (sound and radius <= request * max(1.0, abs(h))):
            certified[i] = 0
        count += certified[i]
    return count


class Averages(NamedTuple):
    """Sums over the keys: N = h + low and A, (d_v, rows) each, and those of `cut_weights`."""

    h: Array
    low: Array
    magnitude: Array
    sums: Array


class Shift(NamedTuple):
    """What p is relative to: p = exp(scale (y - reference)), with an error relative to itself.

    Shapes      reference, error: (r,); seen: (r,), the number of keys; sinks: (2, r), weights, or
                None.
    """

    reference: Array
    scale: tuple[float, float]
    error: Array
    seen: Indices
    sinks: Array | None


class Result(NamedTuple):
    """One block of rows; output is memory that the thread's next block may write over.

    Shapes      output: (4, rows, d_v) = hi, lo, radius, magnitude; lse: (3, rows) = hi, lo, radius;
                certified, empty: (rows,); complete: every row is certified.
    """

    output: Array
    lse: Array
    certified: NDArray[np.bool_]
    empty: NDArray[np.bool_]
    complete: bool


@kernel("void(f8[::1], i8[::1], f8[::1], f8, f8, f8, f8[::1], f8[::1])")
def _score_errors(
    size: Array,
    left_rows: Indices,
    left_sums: Array,
    biggest: float,
    error_of_size: float,
    unseen_of_size: float,
    error: Array,
    unseen: Array,
) -> None:
    for i in range(size.shape[0]):
        error[i] = size[i] * error_of_size
        unseen[i] = size[i] * unseen_of_size
    for c in range(left_rows.shape[0]):
        error[left_rows[c]] += U * left_sums[c] * biggest
        unseen[left_rows[c]] += left_sums[c] * biggest


def score_errors(
    size: Array, left_rows: Indices, left_sums: Array, keys: Keys
) -> tuple[Array, Array]:
    """Per row: the error of y that no shift removes, and how far the row maximum may be too low.

    Shapes      size: (r,); left_rows, left_sums: (kept,), as `cut_queries` gives them.
    Source      docs/theory/fast-oracle.md, part 2.
    """
    narrower, (tails, rests) = 2.0**-keys.bits, keys.rounded
    reach = narrower * keys.whole + keys.rest
    of_size = (U * (tails + narrower * rests) + 2.0**-99 * reach) * ABOVE
    unseen_of_size = (keys.rest + 2.0**-52 * reach) * ABOVE
    error, unseen = np.empty(size.size), np.empty(size.size)
    _score_errors(size, left_rows, left_sums, keys.biggest, of_size, unseen_of_size, error, unseen)
    return error, unseen


def finish(
    total: Averages,
    shift: Shift,
    values: Values,
    chunks: int,
    slices: int,
    request: float,
    output: Array,
) -> Result:
    """
    Quotients, logarithms and their radii, of sums over `chunks` chunks of keys.

    Shapes      output: (4, d_v, rows), written to.
    Guarantee   those of `averages` and `logarithms`.
    Source      docs/theory/fast-oracle.md, part 6.
    """
    rows = shift.reference.size
    totals, room, lse = np.empty((8, rows)), np.empty((3, rows)), np.empty((3, rows))
    certified, nothing = np.empty(rows, np.uint8), np.zeros((2, rows))
    sinks = nothing if shift.sinks is None else shift.sinks
    add_up(total.sums, shift.error, shift.seen, sinks, GROUP, totals)
    averages(
        total.h, total.low, total.magnitude, shift.error, totals, values.columns, CHUNK, PANEL,
        chunks, values.bits, slices, request, room[0], output, certified,
    )  # fmt: skip
    exponentials(totals[LOGARITHM], nothing[0], room[1], room[2], rows)
    count = logarithms(totals, room[1:], shift.reference, *shift.scale, request, lse, certified)
    if count == rows or shift.sinks is not None:
        empty = np.zeros(rows, np.bool_)
    else:
        empty = shift.seen == 0
    return Result(output.transpose(0, 2, 1), lse, certified.view(np.bool_), empty, count == rows)
