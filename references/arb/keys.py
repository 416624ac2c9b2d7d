"""Which keys take part in which rows, and what is not finite, for whole blocks of rows at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from references.enclosure import Array

Booleans = NDArray[np.bool_]


def allowed(
    queries: NDArray[np.intp],
    n_q: int,
    n_k: int,
    causal: bool,
    corner: str,
    window: tuple[int, int] | None,
) -> Booleans:
    """(queries, n_k): what causal and window leave."""
    offset = {"bottom-right": n_k - n_q, "top-left": 0}[corner]
    places: NDArray[np.intp] = np.asarray(queries + offset)
    last: NDArray[np.intp] = places if causal else np.full_like(places, n_k)
    first: NDArray[np.intp] = np.zeros_like(places)
    if window is not None and window[0] != -1:
        first = places - window[0]
    if window is not None and window[1] != -1:
        last = np.asarray(np.minimum(last, places + window[1]))
    keys = np.arange(n_k)
    return np.asarray((first[:, None] <= keys) & (keys <= last[:, None]))


def dot_kinds(q: Array, k: Array) -> Array:
    """
    The dot products as far as they are not finite: 0, +inf, -inf or NaN.

    Shapes      q: (rows, d); k: (n_k, d); returns (rows, n_k).
    Definition  the sum of products in the extended real numbers, NaN where that has no value.
    Guarantee   exact: NaN if some product is NaN or infinities of both signs meet.
    Requires    nothing.
    Special     this is the special case.
    Source      0 inf = NaN, inf - inf = NaN (IEEE 754-2019, 7.2).
    """
    bad_q: Booleans = ~np.isfinite(q)
    bad_k: Booleans = ~np.isfinite(k)
    kinds = np.zeros((len(q), len(k)))
    for i, j in np.argwhere(np.any(bad_q, axis=1)[:, None] | np.any(bad_k, axis=1)).tolist():
        places = bad_q[i] | bad_k[j]
        with np.errstate(invalid="ignore", over="ignore"):
            kinds[i, j] = np.sum(np.sign(q[i, places]) * _magnitude(q, k, i, j, places))
    return kinds


def _magnitude(q: Array, k: Array, i: int, j: int, places: Booleans) -> Array:
    """The sign of k times inf, or NaN where the product is 0 times infinity."""
    sign = np.sign(k[j, places])
    return np.where((q[i, places] == 0) | (sign == 0), np.nan, sign * np.inf)


@dataclass(frozen=True)
class Parts:
    """How the rows of a block are made.

    used      the keys with a positive weight (finite scores, or the +inf ones where there are any)
    idle      the other visible keys: they weigh 0, but what they hold may show as NaN
    undefined rows with a NaN score; infinite: rows with a +inf score; blank: rows without any score
    """

    used: Booleans
    idle: Booleans
    undefined: Booleans
    infinite: Booleans
    blank: Booleans


def partition(visible: Booleans, kinds: Array, sink: float | None) -> Parts:
    """Sort rows and keys by the scores that are not finite (`kinds` is 0 where they are)."""
    nan = np.any(visible & np.isnan(kinds), axis=1)
    high = visible & (kinds == np.inf)
    undefined = nan | (sink is not None and np.isnan(sink))
    infinite: Booleans = np.asarray(~undefined & (high.any(axis=1) | (sink == np.inf)))
    used = np.where(infinite[:, None], high, visible & (kinds == 0)) & ~undefined[:, None]
    return Parts(
        used=used,
        idle=visible & ~used & ~undefined[:, None],
        undefined=undefined,
        infinite=infinite,
        blank=np.asarray(~visible.any(axis=1) & (sink is None)),
    )
