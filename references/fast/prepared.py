"""What is made once per head: q, K and V in slices, with the sums that the proof needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from references.enclosure import Array
from references.fast.slicing import ROUNDER, Cut, cut, power_above, product_unit

CHUNK = 64  # keys per exact product P V
WIDE_BITS = (1 << 41) - 1  # set in a binary64 number of more than 12 significant bits
# Bits of a slice of q and of p, for narrow (8- and 16-bit formats) and wide keys or values.
QUERY_BITS = {True: 23, False: 18}
WEIGHT_BITS = {True: 23, False: 19}


@dataclass(frozen=True)
class Keys:
    """One kv head's K; `bits` is the width of a slice of q.

    `whole` = max_j sum |k|, `rest` = max_j sum |k - head|, `biggest` = max |k|, `rounded` =
    max_j (2 N_j + 2) sum |tail| and max_j (2 N_j + 2) sum |k - head|, N_j the list entries of row j.
    """

    cut: Cut
    bits: int
    whole: float
    rest: float
    biggest: float
    rounded: tuple[float, float]


@dataclass(frozen=True)
class Values:
    """One kv head's V; `bits` is the width of a slice of p; size = |v|, zeros below n_k.

    Shapes      columns: (5, d_v): max |v|, sum |v|, unit of the head, and over the list's entries of the
                column (N + 3) sum |v - head| and (N + 3) sum |tail|.
    """

    cut: Cut
    size: Array
    columns: Array
    bits: int


@dataclass(frozen=True)
class Queries:
    """One head's q: slices 1 and 2, what is left after slice 1, after 2 and after 3.

    Shapes      slices, after: three of (n_q, d); size: (n_q,), 2^e >= max |q|; left: two of (n_q,),
                whether a row needs more than one, two slices.
    """

    slices: tuple[Array, Array, Array]
    after: tuple[Array, Array, Array]
    size: Array
    left: tuple[Array, Array]


def narrow(x: Array) -> bool:
    """Whether every element has at most 12 significant bits."""
    return not bool((x.view(np.int64) & WIDE_BITS).any())


def _finer(bits: int, terms: int) -> float:
    """Grid of a list's middle part: `terms` entries of half a unit, times 2^bits, stay exact."""
    return float(2.0 ** (bits - 54 + max(0, (terms - 1).bit_length())))


def prepare_keys(k: Array) -> Keys:
    """
    Slices K so that its first slice, and the list's middle part, times a slice of q is exact.

    Shapes      k: (n_k, d).
    Requires    finite k, d <= 2^18.
    Source      docs/theory/fast-oracle.md, part 1.
    """
    n, d = k.shape
    bits = QUERY_BITS[narrow(k)]
    size = np.abs(k)
    sums = size.sum(axis=1)
    made = cut(k, product_unit(sums, bits), np.ones(d), _finer(bits, d), n)
    entries = 2.0 * made.row_entries + 2.0
    rounded = (float((entries * made.by_row[1]).max()), float((entries * made.by_row[0]).max()))
    return Keys(
        made, bits, float(sums.max()), float(made.by_row[0].max()), float(size.max()), rounded
    )


def prepare_values(v: Array) -> Values:
    """
    Slices V so that its first slice times a slice of p is exact over a chunk of keys, and the list's
    middle part times a slice of p over all keys.

    Shapes      v: (n_k, d_v).
    Requires    finite v, n_k <= 2^24.
    Source      docs/theory/fast-oracle.md, part 4.
    """
    n, d = v.shape
    bits = WEIGHT_BITS[narrow(v)]
    padded = -(-n // CHUNK) * CHUNK
    size = np.zeros((padded, d))
    np.abs(v, out=size[:n])
    chunks = size.reshape(-1, CHUNK, d).sum(axis=1)
    unit = product_unit(chunks.max(axis=0), bits)
    made = cut(v, np.ones(n), unit, _finer(bits, n), padded)
    lists = (made.column_entries + 3.0) * made.by_column
    columns = np.stack([size.max(axis=0), chunks.sum(axis=0), unit, lists[0], lists[1]])
    return Values(made, size, columns, bits)


def prepare_queries(q: Array, bits: int) -> Queries:
    """
    q on three grids: 2^(e - bits), then each 2^-(bits + 1) times the one before.

    Shapes      q: (n_q, d).
    Guarantee   exact: q = slices + what is left; every slice is an integer of `bits` bits of its grid.
    Requires    finite q, bits <= 25.
    Source      docs/theory/fast-oracle.md, part 1.
    """
    size = power_above(np.abs(q).max(axis=1))
    slices, after, rest = [], [], q
    unit = size[:, None] * 2.0**-bits
    for _ in range(3):
        rounder = ROUNDER * unit
        part = (rest + rounder) - rounder
        rest = rest - part
        slices.append(part)
        after.append(rest)
        unit = unit * 2.0 ** -(bits + 1)
        if not rest.any():
            slices += [rest] * (3 - len(slices))
            after += [rest] * (3 - len(after))
            break
    left = (after[0].any(axis=1), after[1].any(axis=1))
    return Queries((slices[0], slices[1], slices[2]), (after[0], after[1], after[2]), size, left)
