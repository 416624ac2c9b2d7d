"""Error-free slices: numbers cut on power-of-two grids so that float64 products of them are exact.

Where every partial sum of a product is an integer of at most 2^53 units, no rounding can happen, in
whatever order, with or without FMA (docs/theory/fast-oracle.md, part 1).  What the first slice
leaves of K and V is sparse for ordinary inputs and is kept as a list; it is never dropped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from references.enclosure import Array
from references.fast.compiled import bits_of_float, inlined, kernel

Indices = NDArray[np.int64]

EXACT_BITS = 53  # every integer up to 2^53 is a binary64 number
ROUNDER = 1.5 * 2.0**52  # (x + ROUNDER g) - ROUNDER g rounds |x| <= 2^51 g to the grid g
SIGNIFICAND = (1 << 52) - 1
SUM_SLACK = 1.0 + 2.0**-10  # over sums of |x|: their own rounding, and that of x to the grid


@dataclass(frozen=True)
class Cut:
    """x = head + list; the entries start[j] to start[j + 1] of the list belong to the row j.

    Shapes      head: (>= n, d), zeros below n; start: (rows of head + 1,); column, middle, tail:
                (entries,); by_row: (3,) = the maxima over rows of sum |rest|, (2 N + 6) sum |rest|
                and (2 N + 6) sum |tail|, N = entries of the row; by_column: (4, d) = unit,
                sum |rest|, max |tail|, entries of the column.
    Guarantee   exact: x_jc = head_jc + middle + tail for each entry (j, c), else x = head.
    """

    head: Array
    start: Indices
    column: Indices
    middle: Array
    tail: Array
    by_row: Array
    by_column: Array


@inlined
def product_unit(total: float, bits: int) -> float:
    """
    The finest grid g such that integers of `bits` bits times slices on g, summed, stay exact.

    Shapes      total: at least sum |x| over the contraction, up to 2^-20 of itself.
    Guarantee   2^bits (sum |x| (1 + 2^-10)) <= 2^53 g.
    Special     0 for 0.
    Source      docs/theory/fast-oracle.md, part 1.
    """
    fraction, e = math.frexp(total * SUM_SLACK)
    if fraction == 0.5:
        e -= 1
    return math.ldexp(1.0, e + bits - EXACT_BITS) if total > 0.0 else 0.0


@kernel("i8(f8[:,::1], i8, f8[::1], f8[:,::1])")
def survey(x: Array, chunk: int, row_sums: Array, columns: Array) -> int:
    """
    Sums and maxima of |x|; returns the union of the significands' bits.

    Shapes      x: (n, d); row_sums: (n,); columns: (3, d) = max |x|, sum |x|, the largest sum over
                `chunk` rows in a row.
    Guarantee   sums up to (n + d) u of themselves, maxima and bits exactly.
    Source      docs/theory/fast-oracle.md, part 1.
    """
    rows, d = x.shape
    union = np.int64(0)
    partial = np.zeros(d)
    columns[:] = 0.0
    for j in range(rows):
        total = 0.0
        for i in range(d):
            size = abs(x[j, i])
            union |= bits_of_float(size) & SIGNIFICAND
            total += size
            partial[i] += size
            columns[0, i] = max(columns[0, i], size)
        row_sums[j] = total
        if j % chunk == chunk - 1 or j == rows - 1:
            for i in range(d):
                columns[1, i] += partial[i]
                columns[2, i] = max(columns[2, i], partial[i])
                partial[i] = 0.0
    return int(union)


@kernel(
    "i8(f8[:,::1], f8[::1], b1, i8, f8, f8[:,::1], i8[::1], i8[::1], f8[::1], f8[::1], f8[::1],"
    "f8[:,::1])"
)
def _cut(
    x: Array,
    sums: Array,
    by_rows: bool,
    bits: int,
    finer: float,
    head: Array,
    start: Indices,
    column: Indices,
    middle: Array,
    tail: Array,
    by_row: Array,
    by_column: Array,
) -> int:
    """Fills a `Cut`; returns the number of entries."""
    count = 0
    rows, d = x.shape
    unit = np.empty(d)
    by_row[:] = 0.0
    by_column[:] = 0.0
    for i in range(d):
        unit[i] = 0.0 if by_rows else product_unit(sums[i], bits)
        by_column[0, i] = unit[i]
    for j in range(rows):
        start[j] = count
        if by_rows:
            unit[:] = product_unit(sums[j], bits)
        most = 0.0
        for i in range(d):
            rounder = ROUNDER * unit[i]
            head[j, i] = (x[j, i] + rounder) - rounder
            most = max(most, abs(x[j, i] - head[j, i]))
        if most == 0.0:
            continue
        sum_rest = 0.0
        sum_tail = 0.0
        for i in range(d):
            rest = x[j, i] - head[j, i]
            if rest != 0.0:
                rounder = ROUNDER * (unit[i] * finer)
                m = (rest + rounder) - rounder
                column[count] = i
                middle[count] = m
                tail[count] = rest - m
                count += 1
                sum_rest += abs(rest)
                sum_tail += abs(rest - m)
                by_column[1, i] += abs(rest)
                by_column[2, i] = max(by_column[2, i], abs(rest - m))
                by_column[3, i] += 1.0
        entries = 2.0 * (count - start[j]) + 6.0
        by_row[0] = max(by_row[0], sum_rest)
        by_row[1] = max(by_row[1], entries * sum_rest)
        by_row[2] = max(by_row[2], entries * sum_tail)
    start[rows:] = count
    head[rows:] = 0.0
    return count


def cut(x: Array, sums: Array, by_rows: bool, bits: int, padded: int) -> Cut:
    """
    x in a first slice on the grid unit, a second on `finer` times it, and the rest.

    Shapes      x: (n, d); sums: (n,) by rows, else (d,); padded >= n rows of head.
    Definition  unit = product_unit(sums) of the row or column; finer: as many entries as the
                contraction has terms, each half a unit, times integers of `bits` bits, stay exact.
    Guarantee   that of `Cut`; |x - head| <= unit/2, |tail| <= finer unit/2.
    Requires    |x| <= sums; finite x; bits >= 2.
    Special     a unit of 0 where x is 0.
    Source      docs/theory/fast-oracle.md, part 1.
    """
    n, d = x.shape
    terms = d if by_rows else n
    finer = 2.0 ** (bits - EXACT_BITS - 1 + max(0, (terms - 1).bit_length()))
    head, start = np.empty((padded, d)), np.empty(padded + 1, np.int64)
    column, middle, tail = np.empty(n * d, np.int64), np.empty(n * d), np.empty(n * d)
    by_row, by_column = np.empty(3), np.empty((4, d))
    count = _cut(
        x, sums, by_rows, bits, finer, head, start, column, middle, tail, by_row, by_column
    )
    # Views: pages behind them that were never written take no memory.
    return Cut(head, start, column[:count], middle[:count], tail[:count], by_row, by_column)


@kernel("i8(f8[:,::1], i8, i8, f8[::1], f8[::1], f8[:,::1], f8[::1], i8[::1], f8[::1])")
def cut_queries(
    q: Array,
    bits: int,
    slices: int,
    flat: Array,
    left: Array,
    rest: Array,
    size: Array,
    left_rows: Indices,
    sums: Array,
) -> int:
    """
    q on the grids 2^(e - bits), then each 2^-(bits + 1) times the one before, transposed.

    Shapes      q: (r, d); flat: (>= slices r d,), as (d, slices r); rest: (d, r);
                left: (>= 2 r d,), as (d, 2 kept); size, left_rows, sums: (r,).
    Definition  2^e = size_i >= max_l |q_il| (0 for a row of zeros); rest = q - slice 1; left, for
                the `kept` rows that the slices do not make up: one more slice, then what is left;
                sums_c = (N + 4) sum |what is left|, N its elements that are not 0.
    Guarantee   exact; every slice is an integer of `bits` bits of its grid.  Returns kept.
    Requires    finite q, 1 <= bits <= 25, slices 1 or 2.
    Source      docs/theory/fast-oracle.md, part 1.
    """
    rows, d = q.shape
    first = flat[: d * slices * rows].reshape((d, slices * rows))
    narrower = 2.0 ** -(bits + 1)
    kept = 0
    for i in range(rows):
        most = 0.0
        for k in range(d):
            most = max(most, abs(q[i, k]))
        fraction, e = math.frexp(most)
        if fraction == 0.5:
            e -= 1
        size[i] = math.ldexp(1.0, e) if most > 0.0 else 0.0
        rounder = ROUNDER * 2.0**-bits * size[i]
        complete = True
        for k in range(d):
            m = (q[i, k] + rounder) - rounder
            remainder = q[i, k] - m
            first[k, i] = m
            rest[k, i] = remainder
            if slices == 2:
                m = (remainder + rounder * narrower) - rounder * narrower
                first[k, rows + i] = m
                remainder -= m
            if remainder != 0.0:
                complete = False
        if not complete:
            left_rows[kept] = i
            kept += 1
    out = left[: d * 2 * kept].reshape((d, 2 * kept))
    for c in range(kept):
        i = left_rows[c]
        rounder = ROUNDER * 2.0**-bits * size[i] * narrower
        entries = 4.0
        total = 0.0
        for k in range(d):
            remainder = rest[k, i]
            m = (remainder + rounder) - rounder
            if slices == 2:
                remainder -= m
                m = (remainder + rounder * narrower) - rounder * narrower
            remainder -= m
            out[k, c] = m
            out[k, kept + c] = remainder
            if remainder != 0.0:
                entries += 1.0
                total += abs(remainder)
        sums[c] = entries * total
    return kept
