"""Error-free slices: numbers cut on power-of-two grids so that float64 products of them are exact.

Where every partial sum of a product is an integer of at most 2^53 units, no rounding can happen, in
whatever order, with or without FMA (docs/theory/fast-oracle.md, part 1).  What the first slice
leaves of K and V is sparse for ordinary inputs and is kept as a list; it is never dropped.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from references.enclosure import Array
from references.fast.compiled import Indices, bits_of_float, float_of_bits, inlined, kernel

EXACT_BITS = 53  # every integer up to 2^53 is a binary64 number
ROUNDER = 1.5 * 2.0**52  # (x + ROUNDER g) - ROUNDER g rounds |x| <= 2^51 g to the grid g
SIGNIFICAND = (1 << 52) - 1
WIDE_BITS = (1 << 41) - 1  # set in a binary64 number of more than 12 significant bits
SUM_SLACK = 1.0 + 2.0**-10  # over sums of |x|: their own rounding, and that of x to the grid


# Rows of the statistics of columns, all of them sums and maxima over the rows of x.
LARGEST, SUM, UNIT, REST, TAIL, ENTRIES, CHUNK_SUM, PARTIAL = range(8)


class Cut(NamedTuple):
    """x = head + list; the entries start[j] to start[j + 1] of the list belong to the row j.

    Shapes      head: (>= n, d), zeros below n; start: (rows of head + 1,); column, middle, tail:
                (entries,); by_row: (5,) = the maxima over rows of sum |rest|, (2 N + 6) sum |rest|,
                (2 N + 6) sum |tail|, sum |x| and |x|, N = entries of the row; by_column: (8, d) =
                max |x|, sum |x|, unit, and over the list's N entries of the column sum |rest|,
                max |tail|, N; the largest sum |x| over a chunk of rows; room for it.
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

    Shapes      x: (n, d); row_sums: (n,); columns: (8, d), of which the rows LARGEST, SUM and
                CHUNK_SUM (over `chunk` rows in a row) are filled.
    Guarantee   sums up to (n + d) u of themselves, maxima and bits exactly.
    Source      docs/theory/fast-oracle.md, part 1.
    """
    rows, d = x.shape
    union = 0
    for i in range(d):
        columns[LARGEST, i] = 0.0
        columns[SUM, i] = 0.0
        columns[CHUNK_SUM, i] = 0.0
        columns[PARTIAL, i] = 0.0
    for j in range(rows):
        total = 0.0
        for i in range(d):
            size = abs(x[j, i])
            union |= bits_of_float(size)
            total += size
            columns[PARTIAL, i] += size
            columns[LARGEST, i] = max(columns[LARGEST, i], size)
        row_sums[j] = total
        if j % chunk == chunk - 1 or j == rows - 1:
            for i in range(d):
                partial = columns[PARTIAL, i]
                columns[SUM, i] += partial
                columns[CHUNK_SUM, i] = max(columns[CHUNK_SUM, i], partial)
                columns[PARTIAL, i] = 0.0
    return union & SIGNIFICAND


@kernel(
    "i8(f8[:,::1], f8[::1], b1, i8, f8, f8[:,::1], i8[::1], i8[::1], f8[::1], f8[::1], f8[::1],"
    "f8[:,::1])"
)
def _cut(
    x: Array,
    row_sums: Array,
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
    for m in range(by_row.shape[0]):
        by_row[m] = 0.0
    for i in range(d):
        by_row[4] = max(by_row[4], by_column[LARGEST, i])
        by_column[UNIT, i] = product_unit(by_column[CHUNK_SUM, i], bits)
        by_column[REST, i] = 0.0
        by_column[TAIL, i] = 0.0
        by_column[ENTRIES, i] = 0.0
    for j in range(rows):
        start[j] = count
        if by_rows:
            unit = product_unit(row_sums[j], bits)
            for i in range(d):
                by_column[UNIT, i] = unit
        left = 0  # the bits of all that the head leaves: an `or` becomes vector code, max does not
        for i in range(d):
            rounder = ROUNDER * by_column[UNIT, i]
            head[j, i] = (x[j, i] + rounder) - rounder
            left |= bits_of_float(abs(x[j, i] - head[j, i]))
        by_row[3] = max(by_row[3], row_sums[j])
        if left == 0:
            continue
        sum_rest = 0.0
        sum_tail = 0.0
        for i in range(d):
            rest = x[j, i] - head[j, i]
            if rest != 0.0:
                rounder = ROUNDER * (by_column[UNIT, i] * finer)
                m = (rest + rounder) - rounder
                column[count] = i
                middle[count] = m
                tail[count] = rest - m
                count += 1
                sum_rest += abs(rest)
                sum_tail += abs(rest - m)
                by_column[REST, i] += abs(rest)
                by_column[TAIL, i] = max(by_column[TAIL, i], abs(rest - m))
                by_column[ENTRIES, i] += 1.0
        entries = 2.0 * (count - start[j]) + 6.0
        by_row[0] = max(by_row[0], sum_rest)
        by_row[1] = max(by_row[1], entries * sum_rest)
        by_row[2] = max(by_row[2], entries * sum_tail)
    for j in range(rows, head.shape[0]):
        start[j] = count
        for i in range(d):
            head[j, i] = 0.0
    start[head.shape[0]] = count
    return count


class Widths(NamedTuple):
    """Bits of a slice of the other factor: for narrow x (8- and 16-bit formats) and for wide x."""

    narrow: int
    wide: int


def cut(x: Array, by_rows: bool, chunk: int, widths: Widths, padded: int) -> tuple[Cut, int]:
    """
    x in a first slice on the grid unit, a second on `finer` times it, and the rest; the bits.

    Shapes      x: (n, d); padded >= n rows of head.
    Definition  unit = product_unit of the row's sum of |x|, or of the largest of a chunk of the
                column; finer: as many entries as the contraction has terms, each half a unit, times
                integers of `bits` bits, stay exact.
    Guarantee   that of `Cut`; |x - head| <= unit/2, |tail| <= finer unit/2.
    Requires    finite x; bits >= 2.
    Special     a unit of 0 where x is 0.
    Source      docs/theory/fast-oracle.md, part 1.
    """
    n, d = x.shape
    terms = d if by_rows else n
    row_sums, by_row, by_column = np.empty(n), np.empty(5), np.empty((8, d))
    union = survey(x, chunk, row_sums, by_column)
    bits = widths.wide if union & WIDE_BITS else widths.narrow
    finer = 2.0 ** (bits - EXACT_BITS - 1 + max(0, (terms - 1).bit_length()))
    head, start = np.empty((padded, d)), np.empty(padded + 1, np.int64)
    column, middle, tail = np.empty(n * d, np.int64), np.empty(n * d), np.empty(n * d)
    count = _cut(
        x, row_sums, by_rows, bits, finer, head, start, column, middle, tail, by_row, by_column
    )
    # Views: pages behind them that were never written take no memory.
    return Cut(head, start, column[:count], middle[:count], tail[:count], by_row, by_column), bits


@kernel("i8(f8[:,::1], i8, f8[:,::1], f8[::1], f8[:,::1], f8[::1], i8[::1], f8[::1])")
def cut_queries(
    q: Array,
    bits: int,
    first: Array,
    left: Array,
    rest: Array,
    size: Array,
    left_rows: Indices,
    sums: Array,
) -> int:
    """
    q on the grids 2^(e - bits), then each 2^-(bits + 1) times the one before, transposed.

    Shapes      q: (r, d); first: (d, slices r), slices = 1 or 2; rest: (d, r);
                left: (>= 2 r d,), as (d, 2 kept); size, left_rows, sums: (r,).
    Definition  2^e = size_i >= max_l |q_il| (0 for a row of zeros); rest = q - slice 1; left, for
                the `kept` rows that the slices do not make up: one more slice, then what is left;
                sums_c = (N + 4) sum |what is left|, N its elements that are not 0.
    Guarantee   exact; every slice is an integer of `bits` bits of its grid.  Returns kept.
    Requires    finite q, 1 <= bits <= 25.
    Source      docs/theory/fast-oracle.md, part 1.
    """
    rows, d = q.shape
    two = first.shape[1] > rows
    narrower = 2.0 ** -(bits + 1)
    kept = 0
    for i in range(rows):
        most = 0  # bits of numbers >= 0 are in the order of the numbers
        for k in range(d):
            most = max(most, bits_of_float(abs(q[i, k])))
        fraction, e = math.frexp(float_of_bits(most))
        if fraction == 0.5:
            e -= 1
        size[i] = math.ldexp(1.0, e) if most > 0 else 0.0
        rounder = ROUNDER * 2.0**-bits * size[i]
        remains = 0
        for k in range(d):
            m = (q[i, k] + rounder) - rounder
            remainder = q[i, k] - m
            first[k, i] = m
            rest[k, i] = remainder
            if two:
                m = (remainder + rounder * narrower) - rounder * narrower
                first[k, rows + i] = m
                remainder -= m
            remains |= bits_of_float(abs(remainder))
        if remains != 0:
            left_rows[kept] = i
            kept += 1
    for c in range(kept):
        i = left_rows[c]
        rounder = ROUNDER * 2.0**-bits * size[i] * narrower
        entries = 4.0
        total = 0.0
        for k in range(d):
            remainder = rest[k, i]
            m = (remainder + rounder) - rounder
            if two:
                remainder -= m
                m = (remainder + rounder * narrower) - rounder * narrower
            remainder -= m
            left[2 * k * kept + c] = m
            left[(2 * k + 1) * kept + c] = remainder
            if remainder != 0.0:
                entries += 1.0
                total += abs(remainder)
        sums[c] = entries * total
    return kept
