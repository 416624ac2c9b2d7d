"""From exact score slices to exact slices of p = exp(s - M): the innermost loops.

Arrays are key-major, (keys, rows of the block): rows are the vector lanes, so row sums and maxima
need no reordering of additions.  The proof is docs/theory/fast-oracle.md, parts 2 to 5.
"""

from __future__ import annotations

import math

from references.enclosure import Array
from references.fast.compiled import Flags, Indices, fma, inlined, kernel
from references.fast.doubledouble import fast_two_sum, two_sum

LAST, EXACT, SECOND, ROUNDED = range(4)  # parts of the room of `gather`
REMOVED = -1.0e300  # the shifted score of a key that a row does not see: exp gives 0


@kernel(
    "void(f8[:,::1], f8[:,::1], i8[::1], i8[::1], f8[::1], f8[::1], f8[:,::1], f8[:,::1], i8[::1],"
    "f8[:,::1], f8[::1], f8, f8, i8, i8, f8[:,::1], f8[::1], f8[::1])"
)
def differences(
    g: Array,
    low: Array,
    start: Indices,
    column: Indices,
    middle: Array,
    tail: Array,
    q_first: Array,
    q_rest: Array,
    left_rows: Indices,
    left: Array,
    reference: Array,
    scale_h: float,
    scale_l: float,
    j0: int,
    j1: int,
    room: Array,
    h: Array,
    e: Array,
) -> None:
    """
    h + e = scale (y_ij - reference_i) for the keys j0 to j1, flattened key-major.

    Shapes      g: (n_k, slices r), exact products of slices; low: (n_k, r) or (0, 0), added to
                them; start ... tail: the list of K; q_first: (d, >= r), q_rest: (d, r);
                left: (n_k, 2 kept), exact and rounded products of what the slices leave of the rows
                left_rows; room: (2, r); h, e: (>= (j1 - j0) r,).
    Guarantee   part 2: an error of 2^-100 (|x| + 2 scale reach) beside those of the rounded
                products; |e| <= u |h|.
    Requires    scale_h >= 0.
    Special     none.
    Source      docs/theory/fast-oracle.md, part 2.
    """
    rows = reference.shape[0]
    kept = left_rows.shape[0]
    for j in range(j0, j1):
        o = (j - j0) * rows
        if g.shape[1] == rows:
            for i in range(rows):
                h[o + i], e[o + i] = two_sum(g[j, i], -reference[i])
        else:
            for i in range(rows):
                s, error = two_sum(g[j, i], -reference[i])
                s, error2 = two_sum(s, g[j, rows + i])
                h[o + i] = s
                e[o + i] = error + error2
        if low.shape[0] > 0:
            for i in range(rows):
                s, error = two_sum(h[o + i], low[j, i])
                h[o + i] = s
                e[o + i] += error
        if start[j] < start[j + 1]:
            for i in range(rows):
                room[0, i] = 0.0
                room[1, i] = 0.0
            for t in range(start[j], start[j + 1]):
                c = column[t]
                m = middle[t]
                small = tail[t]
                rest = m + small
                for i in range(rows):
                    room[0, i] += q_first[c, i] * m
                    room[1, i] += q_first[c, i] * small + q_rest[c, i] * rest
            for i in range(rows):
                s, error = two_sum(h[o + i], room[0, i])
                h[o + i] = s
                e[o + i] += error + room[1, i]
        for c in range(kept):
            i = o + left_rows[c]
            s, error = two_sum(h[i], left[j, c])
            h[i] = s
            e[i] += error + left[j, kept + c]
    for i in range((j1 - j0) * rows):
        p = h[i] * scale_h
        lower = fma(h[i], scale_h, -p) + fma(h[i], scale_l, e[i] * scale_h)
        h[i], e[i] = fast_two_sum(p, lower)


@inlined
def _sees(j: int, i: int, first: Indices, stop: Indices, mask: Flags) -> bool:
    if j < first[i] or j >= stop[i]:
        return False
    return bool(mask.shape[0] == 0 or mask[j, i] != 0)


@kernel("void(f8[::1], i8[::1], i8[::1], u1[:,::1], i8, i8)")
def conceal(h: Array, first: Indices, stop: Indices, mask: Flags, j0: int, j1: int) -> None:
    """Marks the keys that a row does not see, so that exp gives 0 for them."""
    rows = first.shape[0]
    for j in range(j0, j1):
        for i in range(rows):
            if not _sees(j, i, first, stop, mask):
                h[(j - j0) * rows + i] = REMOVED


@kernel(
    "void(f8[:,::1], i8[::1], f8[:,::1], i8[::1], i8[::1], u1[:,::1], i8, i8, i8, i8, f8[::1],"
    "f8[::1], i8[::1])"
)
def maxima(
    g: Array,
    left_rows: Indices,
    left: Array,
    first: Indices,
    stop: Indices,
    mask: Flags,
    j0: int,
    j1: int,
    all_first: int,
    all_stop: int,
    unseen: Array,
    out: Array,
    keys: Indices,
) -> None:
    """
    Just above the largest score of each row, over the keys that it sees, and how many it sees.

    Shapes      g: (n_k, slices r); left: (n_k, 2 kept); unseen, out, keys: (r,).
    Definition  out_i = m + unseen_i + 2^-50 |m|, m = max_j of the slices' sum and of the exact
                leftover, each addition rounded; keys from all_first to all_stop are seen by every
                row.
    Guarantee   part 2, the shift.
    Special     an empty row: m = 0.
    Source      docs/theory/fast-oracle.md, part 2.
    """
    rows = out.shape[0]
    sliced = g.shape[1] > rows
    for i in range(rows):
        out[i] = -math.inf
        keys[i] = max(0, min(all_stop, j1) - max(all_first, j0))
    for j in range(j0, j1):
        if j >= all_first and j < all_stop:
            if sliced:
                for i in range(rows):
                    out[i] = max(out[i], g[j, i] + g[j, rows + i])
            else:
                for i in range(rows):
                    out[i] = max(out[i], g[j, i])
        else:
            for i in range(rows):
                if _sees(j, i, first, stop, mask):
                    keys[i] += 1
                    out[i] = max(out[i], g[j, i] + g[j, rows + i] if sliced else g[j, i])
    for c in range(left_rows.shape[0]):
        i = left_rows[c]
        out[i] = -math.inf
        for j in range(max(j0, first[i]), min(j1, stop[i])):
            if _sees(j, i, first, stop, mask):
                y = g[j, i] + left[j, c]
                out[i] = max(out[i], y + g[j, rows + i] if sliced else y)
    for i in range(rows):
        m = out[i] if keys[i] > 0 else 0.0
        out[i] = m + (unseen[i] + 2.0**-50 * abs(m))


@kernel("void(f8[::1], f8[::1], i8, i8, i8, f8[:,:,::1], f8[:,::1])")
def cut_weights(
    ph: Array, pl: Array, keys: int, bits: int, group_size: int, p: Array, sums: Array
) -> None:
    """
    p = ph + pl in slices, and their sums over the keys.

    Shapes      ph, pl: (>= keys r,); p: (>= keys, slices, r);
                sums: (7, r), added to: slices 1, 2, 3 of 4, the last (`group_size` keys
                at a time) as hi + lo, its size; room.
    Definition  slice 1 on the grid 2^-bits, slice 2 on 2^-(2 bits + 1), slice 3 of 4 on
                2^-(3 bits + 1), the last slice what is left.
    Guarantee   exact but for one rounding of the last slice; sums 1 to 3 exact.
    Requires    ph <= 1, |pl| <= u ph, bits <= 25.
    Source      docs/theory/fast-oracle.md, part 4.
    """
    rows = sums.shape[1]
    last = 6  # the row of sums that holds a group's last slices
    c1 = 1.5 * 2.0 ** (52 - bits)
    c2 = 1.5 * 2.0 ** (51 - 2 * bits)
    c3 = 1.5 * 2.0 ** (51 - 3 * bits)
    four = p.shape[1] == 4
    for group in range(0, keys, group_size):
        for i in range(rows):
            sums[last, i] = 0.0
        for j in range(group, min(group + group_size, keys)):
            o = j * rows
            if four:
                for i in range(rows):
                    h = ph[o + i]
                    p1 = (h + c1) - c1
                    r = h - p1
                    p2 = ((r + pl[o + i]) + c2) - c2
                    r -= p2
                    p3 = ((r + pl[o + i]) + c3) - c3
                    p4 = (r - p3) + pl[o + i]
                    p[j, 0, i] = p1
                    p[j, 1, i] = p2
                    p[j, 2, i] = p3
                    p[j, 3, i] = p4
                    sums[0, i] += p1
                    sums[1, i] += p2
                    sums[2, i] += p3
                    sums[5, i] += abs(p4)
                    sums[last, i] += p4
            else:
                for i in range(rows):
                    h = ph[o + i]
                    p1 = (h + c1) - c1
                    r = h - p1
                    p2 = ((r + pl[o + i]) + c2) - c2
                    p3 = (r - p2) + pl[o + i]
                    p[j, 0, i] = p1
                    p[j, 1, i] = p2
                    p[j, 2, i] = p3
                    sums[0, i] += p1
                    sums[1, i] += p2
                    sums[5, i] += abs(p3)
                    sums[last, i] += p3
        for i in range(rows):
            s, error = two_sum(sums[3, i], sums[last, i])
            sums[3, i] = s
            sums[4, i] += error


@kernel(
    "void(f8[:,:,::1], f8[:,:,::1], f8[:,:,::1], i8, i8, i8[::1], i8[::1], f8[::1], f8[::1],"
    "f8[:,:,::1], f8[:,::1], f8[:,::1], f8[:,::1])"
)
def gather(
    c: Array,
    a: Array,
    p: Array,
    j0: int,
    j1: int,
    start: Indices,
    column: Indices,
    middle: Array,
    tail: Array,
    room: Array,
    h: Array,
    low: Array,
    magnitude: Array,
) -> None:
    """
    h + low += sum over chunks and slices of the products c, plus p . (v - head of v) from the list.

    Shapes      c: (chunks, d_v, slices r); a: (chunks, d_v, r), added to magnitude;
                p: (keys, slices, r), first key j0; room: (4, > d_v, r);
                h, low, magnitude: (d_v, r).
    Guarantee   part 5: exact slices by two_sum, the last slice and the list's rest rounded.
    Source      docs/theory/fast-oracle.md, part 5.
    """
    slices = p.shape[1]
    d, rows = h.shape
    listed = start[j0] < start[j1]
    for k in range(d):
        for i in range(rows):
            room[LAST, k, i] = 0.0
            if listed:
                room[EXACT, k, i] = 0.0
                room[SECOND, k, i] = 0.0
                room[ROUNDED, k, i] = 0.0
    for b in range(c.shape[0]):
        for k in range(d):
            for i in range(rows):
                total, error = two_sum(h[k, i], c[b, k, i])
                total, error2 = two_sum(total, c[b, k, rows + i])
                h[k, i] = total
                low[k, i] += error + error2
                room[LAST, k, i] += c[b, k, (slices - 1) * rows + i]
                magnitude[k, i] += a[b, k, i]
            if slices == 4:
                for i in range(rows):
                    total, error = two_sum(h[k, i], c[b, k, 2 * rows + i])
                    h[k, i] = total
                    low[k, i] += error
    if not listed:
        for k in range(d):
            for i in range(rows):
                low[k, i] += room[LAST, k, i]
        return
    for j in range(j0, j1):
        for t in range(start[j], start[j + 1]):
            m = middle[t]
            small = tail[t]
            rest = m + small
            k = column[t]
            for i in range(rows):
                room[EXACT, k, i] += p[j - j0, 0, i] * m
            if slices == 3:
                for i in range(rows):
                    after = p[j - j0, 1, i] + p[j - j0, 2, i]
                    room[ROUNDED, k, i] += p[j - j0, 0, i] * small + after * rest
            else:
                for i in range(rows):
                    room[SECOND, k, i] += p[j - j0, 1, i] * m
                for i in range(rows):
                    first = p[j - j0, 0, i] + p[j - j0, 1, i]
                    after = p[j - j0, 2, i] + p[j - j0, 3, i]
                    room[ROUNDED, k, i] += first * small + after * rest
    for k in range(d):
        for i in range(rows):
            total, error = two_sum(h[k, i], room[EXACT, k, i])
            total, error2 = two_sum(total, room[SECOND, k, i])
            h[k, i] = total
            low[k, i] += ((error + error2) + room[ROUNDED, k, i]) + room[LAST, k, i]
