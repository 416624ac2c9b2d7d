"""From exp(s - M) and dP to p, D and dS of a block of rows: the pair loops of the backward pass.

Arrays are key-major and flat, (keys rows,), as in `weights`; pairs hi + lo as in `doubledouble`.
docs/theory/fast-oracle.md, part 11.
"""

from __future__ import annotations

from references.enclosure import Array
from references.fast.compiled import Indices, inlined, kernel
from references.fast.doubledouble import divide, multiply, two_sum


@inlined
def add(ah: float, al: float, bh: float, bl: float) -> tuple[float, float]:
    """(ah + al) + (bh + bl) up to 5 u^2 (|ah| + |bh|), normalised; any signs."""
    s, e = two_sum(ah, bh)
    return two_sum(s, e + (al + bl))


@kernel("void(f8[::1], f8[::1], i8, f8[::1], f8[::1])")
def row_sums(ph: Array, pl: Array, keys: int, h: Array, low: Array) -> None:
    """
    h + low += sum over the keys of ph + pl.

    Shapes      ph, pl: (>= keys r,); h, low: (r,).
    Guarantee   5 keys u^2 of the sum, for ph >= 0.
    """
    rows = h.shape[0]
    for j in range(keys):
        for i in range(rows):
            h[i], low[i] = add(h[i], low[i], ph[j * rows + i], pl[j * rows + i])


@kernel("void(f8[::1], f8[::1], f8[::1], f8[::1], i8, f8[:,::1], f8[:,::1])")
def normalise(
    ph: Array, pl: Array, dh: Array, dl: Array, keys: int, total: Array, mean: Array
) -> None:
    """
    p /= l, D = sum p dP and B = sum |p dP| of each row.

    Shapes      ph, pl, dh, dl: (>= keys r,), p and dP; total: (2, r) = l; mean: (3, r) = D as hi
                and lo, B.
    Guarantee   41 u^2 of p; D up to (5 keys + 8) u^2 B; B up to (keys + 2) u.
    Requires    l > 0.
    """
    rows = total.shape[1]
    mean[:] = 0.0
    inverse_h, inverse_l = mean[0].copy(), mean[0].copy()
    for i in range(rows):
        inverse_h[i], inverse_l[i] = divide(1.0, 0.0, total[0, i], total[1, i])
    for j in range(keys):
        for i in range(rows):
            o = j * rows + i
            h, low = multiply(ph[o], pl[o], inverse_h[i], inverse_l[i])
            ph[o], pl[o] = h, low
            h, low = multiply(h, low, dh[o], dl[o])
            mean[0, i], mean[1, i] = add(mean[0, i], mean[1, i], h, low)
            mean[2, i] += abs(h)


@kernel("void(f8[::1], f8[::1], f8[::1], f8[::1], i8, f8[:,::1], f8[::1])")
def differentiate(
    ph: Array, pl: Array, dh: Array, dl: Array, keys: int, shift: Array, size: Array
) -> None:
    """
    (dh, dl) becomes dS = p (dP + shift), size becomes F = p (|dP| + spread).

    Shapes      ph, pl, dh, dl, size: (>= keys r,); shift: (3, r) = dLSE - D as hi and lo, and
                spread = B + |dLSE|.
    Guarantee   13 u^2 F; F up to 3 u.
    """
    rows = shift.shape[1]
    for j in range(keys):
        for i in range(rows):
            o = j * rows + i
            size[o] = ph[o] * (abs(dh[o]) + shift[2, i])
            gh, gl = add(dh[o], dl[o], shift[0, i], shift[1, i])
            dh[o], dl[o] = multiply(ph[o], pl[o], gh, gl)


@kernel("void(f8[::1], f8[::1], f8[::1], f8[::1], i8, f8[::1], f8[::1])")
def damp(dh: Array, dl: Array, sh: Array, sl: Array, n: int, th: Array, tl: Array) -> None:
    """(th, tl) = (dh, dl) (sh, sl) up to 8 u^2, the first n elements."""
    for i in range(n):
        th[i], tl[i] = multiply(dh[i], dl[i], sh[i], sl[i])


@kernel("void(f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1])")
def sink_terms(weight: Array, total: Array, shift: Array, term: Array) -> None:
    """
    The sink's p (dLSE - D), and its p (B + |dLSE|).

    Shapes      weight, total: (2, r), exp of the sink and l; shift: (3, r) of `differentiate`;
                term: (3, r) = hi, lo, size.
    Guarantee   48 u^2 of the size.
    """
    for i in range(weight.shape[1]):
        h, low = divide(weight[0, i], weight[1, i], total[0, i], total[1, i])
        term[0, i], term[1, i] = multiply(h, low, shift[0, i], shift[1, i])
        term[2, i] = h * shift[2, i]


@kernel(
    "void(f8[::1], f8[::1], f8[::1], i8, f8[::1], i8[::1], i8[::1], f8[::1], f8[::1], f8[::1],"
    "f8[::1])"
)
def add_pairs(
    dh: Array,
    dl: Array,
    size: Array,
    keys: int,
    relative: Array,
    by_row: Indices,
    by_key: Indices,
    h: Array,
    low: Array,
    magnitude: Array,
    error: Array,
) -> None:
    """
    Adds the pairs to dbias: element by_row_i + by_key_j of h + low, F to magnitude, relative F to
    error.

    Shapes      dh, dl, size: (>= keys r,); relative, by_row: (r,); by_key: (keys,); the others as
                long as dbias.
    Guarantee   5 u^2 of the magnitude for each term.
    """
    rows = relative.shape[0]
    for j in range(keys):
        for i in range(rows):
            o = j * rows + i
            place = by_row[i] + by_key[j]
            h[place], low[place] = add(h[place], low[place], dh[o], dl[o])
            magnitude[place] += size[o]
            error[place] += relative[i] * size[o]
