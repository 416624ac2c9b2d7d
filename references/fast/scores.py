"""Scores of a block of rows: exact slices, what they leave, the shift and the error of p.

Arrays are key-major (keys, rows).  docs/theory/fast-oracle.md, part 2.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from references.enclosure import Array
from references.fast import compiled
from references.fast.compiled import Flags, Indices
from references.fast.exponential import exponentials
from references.fast.prepared import CHUNK, PANEL, QUERY_BITS, Keys
from references.fast.quotient import ABOVE, Shift, score_errors
from references.fast.scratch import scratch
from references.fast.slicing import Cut, cut_queries
from references.fast.weights import differences, maxima

STATIC = 2.0**-91  # relative error of every p: exp, scaling and shift on [X_MIN, 0]

_NONE = np.empty((0, 0))
_NO_MASK: Flags = np.empty((0, 0), np.uint8)
_NO_ROWS = np.empty(0, np.int64)
_NOTHING = np.empty(0)


class Rules(NamedTuple):
    """What every block of a call shares; scale_h >= 0 (a negative scale is moved into q)."""

    scale_h: float
    scale_l: float
    softcap: float
    request: float
    first: Indices
    stop: Indices
    whole: int  # n_k where causal and window leave every key to every row, else 0


class Extras(NamedTuple):
    """What differs by head: mask and bias as (n_q, n_k), and the sink."""

    mask: NDArray[np.bool_] | None = None
    bias: Array | None = None
    sink: float | None = None


class View(NamedTuple):
    """The keys that each row sees, and the range of keys that is computed."""

    first: Indices
    stop: Indices
    mask: Flags
    j0: int
    j1: int
    common: tuple[int, int]  # the keys that every row of the block sees

    @property
    def chunks(self) -> int:
        return -(-(self.j1 - self.j0) // CHUNK)

    def panels(self) -> Iterator[tuple[int, int]]:
        keys = PANEL * CHUNK
        return ((j, min(j + keys, self.j1)) for j in range(self.j0, self.j1, keys))


class Slices(NamedTuple):
    """q of a block in one or two slices, transposed, and what they leave of a few rows."""

    slices: Array
    rest: Array
    size: Array
    left_rows: Indices
    left: Array
    left_sums: Array


class Scores(NamedTuple):
    """scale (g + low + list + leftovers - reference)."""

    g: Array
    low: Array
    listed: Cut
    queries: Slices
    left: Array
    shift: Shift

    def shifted(self, j0: int, j1: int, reference: Array, h: Array, e: Array) -> None:
        listed, q = self.listed, self.queries
        differences(
            self.g, self.low, listed.start, listed.column, listed.middle, listed.tail,
            q.slices, q.rest, q.left_rows, self.left, reference, *self.shift.scale, j0, j1,
            scratch("listed", 2, reference.size), h, e,
        )  # fmt: skip


def view_of(rules: Rules, extras: Extras, chosen: slice | Indices) -> View:
    first, stop = rules.first[chosen], rules.stop[chosen]
    if rules.whole and extras.mask is None:
        return View(first, stop, _NO_MASK, 0, rules.whole, (0, rules.whole))
    j0 = int(first.min()) // CHUNK * CHUNK
    mask = _NO_MASK
    if extras.mask is not None:
        mask = extras.mask[chosen].T.copy().view(np.uint8)
    common = (int(first.max()), int(stop.min())) if extras.mask is None else (0, 0)
    return View(first, stop, mask, j0, max(j0, int(stop.max())), common)


def transposed(x: Array) -> Array:
    return x.T.copy()  # a view of a broadcast array would be read-only


def cut_rows(q: Array, keys: Keys, use: str = "") -> Slices:
    """One slice where it holds (almost) every row, else two; exact with what they leave.

    `use` names the memory: that of another use stays as it is.
    """
    rows, d = q.shape
    rest, left = scratch(f"{use}rest", d, rows), scratch(f"{use}l", 2 * d * rows)
    size, sums, kept_rows = np.empty(rows), np.empty(rows), np.empty(rows, np.int64)
    slices = scratch(f"{use}q", d, rows if keys.bits == QUERY_BITS.narrow else 2 * rows)
    kept = cut_queries(q, keys.bits, slices, left, rest, size, kept_rows, sums)
    if 4 * kept > rows and slices.shape[1] == rows:
        slices = scratch(f"{use}q", d, 2 * rows)
        kept = cut_queries(q, keys.bits, slices, left, rest, size, kept_rows, sums)
    left = left[: 2 * d * kept].reshape(d, 2 * kept)
    return Slices(slices, rest, size, kept_rows[:kept], left, sums[:kept])


def products(queries: Slices, keys: Keys, view: View, use: str = "") -> tuple[Array, Array]:
    """The exact products K head Q, and K head times the leftovers."""
    n, inside = keys.cut.head.shape[0], slice(view.j0, view.j1)
    g = scratch(f"{use}g", n, queries.slices.shape[1])
    np.matmul(keys.cut.head[inside], queries.slices, out=g[inside])
    if queries.left_rows.size == 0:
        return g, _NONE
    left = scratch(f"{use}left", n, queries.left.shape[1])
    np.matmul(keys.cut.head[inside], queries.left, out=left[inside])
    return g, left


def absolute_errors(queries: Slices, keys: Keys) -> tuple[Array, Array]:
    """`score_errors` of rows that are cut here."""
    return score_errors(queries.size, queries.left_rows, queries.left_sums, keys)


def plain_scores(queries: Slices, keys: Keys, rules: Rules, view: View) -> Scores:
    """Scores without bias, softcap and sink: the shift comes before the scale, without error."""
    rows = queries.size.size
    g, left = products(queries, keys, view)
    reference, seen = np.empty(rows), np.empty(rows, np.int64)
    error, unseen = absolute_errors(queries, keys)
    maxima(
        g, queries.left_rows, left, view.first, view.stop, view.mask, view.j0, view.j1,
        *view.common, unseen, reference, seen,
    )  # fmt: skip
    error *= rules.scale_h
    error += STATIC
    shift = Shift(reference, (rules.scale_h, rules.scale_l), error, seen, None)
    return Scores(g, _NONE, keys.cut, queries, left, shift)


@functools.cache
def general_kernels() -> ModuleType:
    """Compiled when a call first has a softcap, a bias or a sink."""
    with compiled.cache():
        from references.fast import general
    return general


def _make_general(
    plain: Scores, rules: Rules, view: View, bias: Array, slopes: tuple[Array, Array] | None
) -> tuple[Array, Array]:
    """s = softcap tanh(scale y / softcap) + bias in double-double, (n_k, rows) each.

    slopes, (n_k rows) each, is filled with 1 - tanh^2 where there is a softcap.
    """
    general = general_kernels()
    n, rows = plain.g.shape[0], plain.shift.reference.size
    high, low = scratch("high", n, rows), scratch("low", n, rows)
    names = ("h", "e", "zh", "zl", "ph", "pl")
    h, e, zh, zl, wh, wl = (scratch(name, PANEL * CHUNK * rows) for name in names)
    for j0, j1 in view.panels():
        size = (j1 - j0) * rows
        plain.shifted(j0, j1, plain.shift.reference, h, e)
        if rules.softcap > 0.0:
            general.twice_quotients(h, e, size, rules.softcap, zh, zl)
            exponentials(zh, zl, wh, wl, size)
            general.cap(h, e, size, rules.softcap, wh, wl)
            if slopes is not None:
                part = slice(j0 * rows, j1 * rows)
                general.slopes(wh, wl, size, slopes[0][part], slopes[1][part])
        general.add_bias(h, e, j0, bias, j1 - j0, high, low)
    return high, low


def general_scores(
    queries: Slices,
    keys: Keys,
    rules: Rules,
    view: View,
    extras: Extras,
    bias: Array,
    slopes: tuple[Array, Array] | None = None,
) -> Scores:
    """Scores with bias, softcap or sink: s is made first, then shifted."""
    rows, n = queries.size.size, keys.cut.head.shape[0]
    g, left = products(queries, keys, view)
    zero, seen = np.zeros(rows), np.empty(rows, np.int64)
    unshifted = Shift(zero, (rules.scale_h, rules.scale_l), zero, seen, None)
    plain = Scores(g, _NONE, keys.cut, queries, left, unshifted)
    high, low = _make_general(plain, rules, view, bias, slopes)
    reference = np.empty(rows)
    maxima(
        high, _NO_ROWS, _NONE, view.first, view.stop, view.mask, view.j0, view.j1,
        *view.common, zero, reference, seen,
    )  # fmt: skip
    sinks = None
    if extras.sink is not None:
        reference[seen == 0] = extras.sink + 2.0**-50 * abs(extras.sink)
        sinks = np.empty((2, rows))
        general_kernels().sink_weights(extras.sink, reference, sinks)
    error, _ = absolute_errors(queries, keys)
    size = queries.size * (keys.whole * rules.scale_h * ABOVE)
    if bias.size:
        size = size + np.abs(bias).max(axis=0)
    error = error * rules.scale_h + 2.0**-99 * size + 2.0**-98 * rules.softcap + STATIC
    plainer = queries._replace(left_rows=_NO_ROWS)
    shift = Shift(reference, (1.0, 0.0), error, seen, sinks)
    return Scores(high, low, _no_list(n), plainer, _NONE, shift)


def _no_list(n: int) -> Cut:
    return Cut(_NONE, np.zeros(n + 1, np.int64), _NO_ROWS, _NOTHING, _NOTHING, _NOTHING, _NONE)


def scores_of(
    q: Array, keys: Keys, rules: Rules, extras: Extras, view: View, chosen: slice | Indices
) -> Scores:
    """The scores of the rows `chosen`, by the shorter way where nothing but the scale is done."""
    cut = cut_rows(q[chosen], keys)
    if rules.softcap > 0.0 or extras.bias is not None or extras.sink is not None:
        bias = _NONE if extras.bias is None else transposed(extras.bias[chosen])
        return general_scores(cut, keys, rules, view, extras, bias)
    return plain_scores(cut, keys, rules, view)
