"""One block of query rows of the backward pass: p, dS and dT in double-double, and their errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from references.enclosure import Array
from references.fast.differentials import damp, differentiate, normalise, row_sums, sink_terms
from references.fast.exponential import DROPPED, exponentials
from references.fast.prepared import Keys, Values
from references.fast.quotient import ABOVE, DOMAIN, Shift, U
from references.fast.scores import (
    Extras,
    Rules,
    Scores,
    View,
    absolute_errors,
    cut_rows,
    general_scores,
    plain_scores,
    products,
    transposed,
    view_of,
)
from references.fast.scratch import scratch
from references.fast.weights import conceal

LEAST_SUM = 2.0**-20  # of a row sum relative to the largest weight that it may hold

_NONE = np.empty((0, 0))
Pair = tuple[Array, Array]


@dataclass(frozen=True)
class Upstream:
    """One head: dO (n_q, d_v), dLSE (n_q,), and q and dO sliced by columns."""

    do: Array
    dlse: Array
    queries: Values
    columns: Values


@dataclass(frozen=True)
class Block:
    """
    The keys j0 to j1 and r rows; the pairs are memory that the thread's next block writes over.

    p, ds, dt     hi and lo, each (keys, r); size: F (keys, r)
    relative_p    (r,): bounds |p^ - p| / p; relative_ds, relative_dt: |dS^ - dS| / F and so on
    missed_p, missed_ds, missed_sink   (r,): what terms of negligible weight, whose exp is taken as
                  0, may add to that: to one p, to all dS of the row together, to the sink's term
    sink          (3, r): p_sink (dLSE - D) as hi and lo, and what relative_ds is relative to
    left          (r,): rows whose errors are above the limit; all their pairs are 0
    """

    j0: int
    j1: int
    p: Pair
    ds: Pair
    dt: Pair
    size: Array
    relative_p: Array
    relative_ds: Array
    relative_dt: Array
    missed_p: Array
    missed_ds: Array
    missed_sink: Array
    sink: Array | None
    left: NDArray[np.bool_]


def backward(
    q: Array,
    keys: Keys,
    values: Keys,
    rules: Rules,
    extras: Extras,
    upstream: Upstream,
    rows: slice,
    limit: float,
) -> Block:
    """
    The rows `rows` of one head; values: the rows of V, sliced as keys are.

    Requires    finite numbers; -inf in bias removed by the mask; q with the sign of the scale.
    Source      docs/theory/fast-oracle.md, part 11.
    """
    view, r = view_of(rules, extras, rows), rows.stop - rows.start
    dlse = upstream.dlse[rows]
    if view.j1 <= view.j0:
        return _without_keys(view, dlse, extras.sink)
    n = view.j1 - view.j0
    scores, slopes, slope_error = _scores(q[rows], keys, rules, extras, view, rows)
    reference = scores.shift.reference
    if extras.sink is not None:
        reference = np.maximum(reference, extras.sink)
    p, weight, total = _weights(scores, reference, view, extras.sink)
    ds, error, biggest = _products(upstream.do[rows], values, view, n)
    nothing = (scores.shift.seen == 0) & (weight is None)
    sound = (scores.shift.error < DOMAIN) & (total[0] > LEAST_SUM) & (total[0] < np.inf) | nothing
    total[:, ~sound | nothing] = [[1.0], [0.0]]
    mean, shift = np.empty((3, r)), np.empty((3, r))
    normalise(*p, *ds, n, total, mean)
    shift[:2] = _difference(dlse, mean)
    shift[2] = mean[2] + np.abs(dlse)
    sink = None
    if weight is not None:
        sink = np.empty((3, r))
        sink_terms(weight, total, shift, sink)
    weighed = np.count_nonzero(p[0].reshape(n, r) > 0.0, axis=0)
    negligible = weighed < scores.shift.seen
    size = scratch("F", n * r)
    differentiate(*p, *ds, n, shift, size)
    dt = ds
    if slopes is not None:
        dt = scratch("dt", n * r), scratch("dt low", n * r)
        damp(*ds, *slopes, n * r, *dt)
    relative_p = (2.0 * scores.shift.error + (5.0 * n + 64.0) * U * U) * ABOVE
    moved = np.where((weighed == 0) | (error == 0.0), 0.0, error / shift[2])
    relative_ds = (2.0 * relative_p + 2.0 * moved + 2.0**-98 + (5.0 * n + 64.0) * U * U) * ABOVE
    relative_dt = relative_ds + slope_error
    left = np.logical_not(sound & (relative_dt <= limit) & np.isfinite(shift[2]))
    bound, most = DROPPED / LEAST_SUM * 8.0 * n, biggest + shift[2]
    lost = negligible if weight is None else negligible | (weight[0] == 0.0)
    missed, missed_sink = np.where(negligible, bound, 0.0), np.where(lost, bound * most, 0.0)
    whole = Block(
        view.j0, view.j1, p, ds, dt, size, relative_p, relative_ds, relative_dt,
        missed, missed * most, missed_sink, sink, left,
    )  # fmt: skip
    return _cleared(whole, r)


def _scores(
    q: Array, keys: Keys, rules: Rules, extras: Extras, view: View, rows: slice
) -> tuple[Scores, Pair | None, Array | float]:
    """Scores, the slopes of the softcap for the keys of the view, and their error."""
    cut, slopes = cut_rows(q, keys), None
    if not (rules.softcap > 0.0 or extras.bias is not None or extras.sink is not None):
        return plain_scores(cut, keys, rules, view), None, 0.0
    bias = _NONE if extras.bias is None else transposed(extras.bias[rows])
    if rules.softcap > 0.0:
        pairs = keys.cut.head.shape[0] * len(q)
        slopes = scratch("slope", pairs), scratch("slope low", pairs)
    scores = general_scores(cut, keys, rules, view, extras, bias, slopes)
    if slopes is None:
        return scores, None, 0.0
    inside = slice(view.j0 * len(q), view.j1 * len(q))
    error = 2.0**-96 + absolute_errors(cut, keys)[0] * (rules.scale_h * ABOVE / rules.softcap)
    return scores, (slopes[0][inside], slopes[1][inside]), error


def _weights(
    scores: Scores, reference: Array, view: View, sink: float | None
) -> tuple[Pair, Array | None, Array]:
    """exp(s - reference) of the keys and of the sink, and their sums (2, r)."""
    n, r = view.j1 - view.j0, reference.size
    h, e, ph, pl = (scratch(name, n * r) for name in ("x", "x low", "P", "P low"))
    scores.shifted(view.j0, view.j1, reference, h, e)
    first, stop = view.common
    if view.j0 < first or view.j1 > stop:
        conceal(h, view.first, view.stop, view.mask, view.j0, view.j1)
    exponentials(h, e, ph, pl, n * r)
    total, weight = np.zeros((2, r)), None
    if sink is not None:
        weight = np.empty((2, r))
        x, error = _two_sum(np.full(r, sink), -reference)
        exponentials(x, error, weight[0], weight[1], r)
        total = weight.copy()
    row_sums(ph, pl, n, total[0], total[1])
    return (ph, pl), weight, total


def _products(do: Array, values: Keys, view: View, n: int) -> tuple[Pair, Array, Array]:
    """dP of the keys of the view, what its error is beside 2^-100 of itself, and a bound of it."""
    r = len(do)
    cut = cut_rows(do, values, "dO ")
    g, left = products(cut, values, view, "dO ")
    zero, seen = np.zeros(r), np.zeros(r, np.int64)
    unshifted = Shift(zero, (1.0, 0.0), zero, seen, None)
    plain = Scores(g, _NONE, values.cut, cut, left, unshifted)
    h, e = scratch("dS", n * r), scratch("dS low", n * r)
    plain.shifted(view.j0, view.j1, zero, h, e)
    return (h, e), absolute_errors(cut, values)[0], cut.size * (values.whole * ABOVE)


def _difference(dlse: Array, mean: Array) -> Array:
    """dLSE - D as hi and lo."""
    s, error = _two_sum(dlse, -mean[0])
    return np.stack(_two_sum(s, error - mean[1]))


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _cleared(block: Block, r: int) -> Block:
    """The block with nothing in the rows that are left."""
    if block.left.any():
        for flat in {id(x): x for x in (*block.p, *block.ds, *block.dt, block.size)}.values():
            flat.reshape(-1, r)[:, block.left] = 0.0
        rows = [block.relative_p, block.relative_ds, block.relative_dt]
        for row in (*rows, block.missed_p, block.missed_ds, block.missed_sink):
            row[block.left] = 0.0
        if block.sink is not None:
            block.sink[:, block.left] = 0.0
    return block


def _without_keys(view: View, dlse: Array, sink: float | None) -> Block:
    """No row of the block sees a key: the sink's p is 1."""
    nothing, zero = (np.empty(0), np.empty(0)), np.zeros(dlse.size)
    term = None if sink is None else np.stack([dlse, zero, np.abs(dlse)])
    return Block(
        view.j0, view.j0, nothing, nothing, nothing, nothing[0], zero, zero, zero, zero, zero,
        zero, term, np.zeros(dlse.size, np.bool_),
    )  # fmt: skip
