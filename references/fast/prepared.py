"""What is made once per head: K and V in slices, with the sums that the proof needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from references.enclosure import Array
from references.fast.slicing import SUM_SLACK, Cut, cut, survey

CHUNK = 64  # keys per exact product P V
WIDE_BITS = (1 << 41) - 1  # set in a binary64 number of more than 12 significant bits
# Bits of a slice of q and of p, for narrow (8- and 16-bit formats) and wide keys or values.
QUERY_BITS = {True: 23, False: 18}
WEIGHT_BITS = {True: 23, False: 20}


@dataclass(frozen=True)
class Keys:
    """One kv head's K; `bits` is the width of a slice of q.

    `whole` = max_j sum |k|, `rest` = max_j sum |k - head|, `biggest` >= max |head|, `rounded` =
    max_j (2 N_j + 6) sum |tail| and max_j (2 N_j + 6) sum |k - head|, N_j = list entries of row j.
    """

    cut: Cut
    bits: int
    whole: float
    rest: float
    biggest: float
    rounded: tuple[float, float]


@dataclass(frozen=True)
class Values:
    """One kv head's V; `bits` is the width of a slice of p.

    Shapes      head, size: (chunks, d_v, CHUNK), the head of the cut and |v|, zeros below n_k;
                columns: (6, d_v) = max |v|, sum |v|, unit of the head, and over the list's N
                entries of the column sum |v - head|, max |tail|, N.
    """

    cut: Cut
    head: Array
    size: Array
    columns: Array
    bits: int


def prepare_keys(k: Array) -> Keys:
    """
    Slices K so that its first slice, and the list's middle part, times a slice of q is exact.

    Shapes      k: (n_k, d).
    Requires    finite k, d <= 2^18.
    Source      docs/theory/fast-oracle.md, part 1.
    """
    n, d = k.shape
    sums, columns = np.empty(n), np.empty((3, d))
    bits = QUERY_BITS[survey(k, CHUNK, sums, columns) & WIDE_BITS == 0]
    made = cut(k, sums, True, bits, n)
    rest, rests, tails = (float(x) for x in made.by_row)
    biggest = float(columns[0].max()) * SUM_SLACK
    return Keys(made, bits, float(sums.max()), rest, biggest, (tails, rests))


def prepare_values(v: Array) -> Values:
    """
    Slices V so that its first slice times a slice of p is exact over a chunk of keys, and the
    list's middle part times a slice of p over all keys.

    Shapes      v: (n_k, d_v).
    Requires    finite v, n_k <= 2^24.
    Source      docs/theory/fast-oracle.md, part 4.
    """
    n, d = v.shape
    sums, columns = np.empty(n), np.empty((3, d))
    bits = WEIGHT_BITS[survey(v, CHUNK, sums, columns) & WIDE_BITS == 0]
    padded = -(-n // CHUNK) * CHUNK
    made = cut(v, columns[2], False, bits, padded)
    size = np.empty((padded, d))
    np.abs(v, out=size[:n])
    size[n:] = 0.0
    stats = np.concatenate((columns[:2], made.by_column))
    return Values(made, _by_chunk(made.head), _by_chunk(size), stats, bits)


def _by_chunk(x: Array) -> Array:
    """(chunks, d_v, CHUNK), a view."""
    return x.reshape(len(x) // CHUNK, CHUNK, x.shape[1]).transpose(0, 2, 1)
