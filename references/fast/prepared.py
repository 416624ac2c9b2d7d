"""What is made once per head: K and V in slices, with the sums that the proof needs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from references.enclosure import Array
from references.fast.slicing import SUM_SLACK, Cut, Widths, cut

CHUNK = 64  # keys per exact product P V
PANEL = 4  # chunks whose scores, p and products stay in the second-level cache
GROUP = 8  # keys whose last slices are added up before they join the double-double sum
QUERY_BITS = Widths(narrow=23, wide=18)  # of a slice of q
WEIGHT_BITS = Widths(narrow=23, wide=20)  # of a slice of p


class Keys(NamedTuple):
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


class Values(NamedTuple):
    """One kv head's V; `bits` is the width of a slice of p.

    Shapes      head, size: (chunks, d_v, CHUNK), the head of the cut and |v|, zeros below n_k;
                columns: `Cut.by_column`.
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
    made, bits = cut(k, True, CHUNK, QUERY_BITS, len(k))
    rest, rests, tails, whole, biggest = made.by_row.tolist()
    return Keys(made, bits, whole, rest, biggest * SUM_SLACK, (tails, rests))


def prepare_values(v: Array) -> Values:
    """
    Slices V so that its first slice times a slice of p is exact over a chunk of keys, and the
    list's middle part times a slice of p over all keys.

    Shapes      v: (n_k, d_v).
    Requires    finite v, n_k <= 2^24.
    Source      docs/theory/fast-oracle.md, part 4.
    """
    n, d = v.shape
    padded = -(-n // CHUNK) * CHUNK
    made, bits = cut(v, False, CHUNK, WEIGHT_BITS, padded)
    size = np.empty((padded, d))
    np.abs(v, out=size[:n])
    size[n:] = 0.0
    return Values(made, _by_chunk(made.head), _by_chunk(size), made.by_column, bits)


def _by_chunk(x: Array) -> Array:
    """(chunks, d_v, CHUNK), a view."""
    return x.reshape(len(x) // CHUNK, CHUNK, x.shape[1]).transpose(0, 2, 1)
