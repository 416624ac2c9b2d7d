"""One block of query rows: weights and averages; arrays are key-major (keys, rows)."""

from __future__ import annotations

import numpy as np

from references.enclosure import Array
from references.fast.compiled import Indices
from references.fast.exponential import exponentials
from references.fast.prepared import CHUNK, GROUP, PANEL, Keys, Values
from references.fast.quotient import Averages, Result, finish
from references.fast.scores import Extras, Rules, Scores, View, scores_of, view_of
from references.fast.scratch import scratch
from references.fast.weights import conceal, cut_weights, gather


def _averages(scores: Scores, values: Values, view: View, slices: int) -> Averages:
    """Weights in slices and their exact products with V, a panel of keys at a time."""
    reference, d = scores.shift.reference, values.head.shape[1]
    rows = reference.size
    total = Averages(
        scratch("N", d, rows), scratch("N low", d, rows), scratch("A", d, rows), np.zeros((7, rows))
    )  # fmt: skip
    for part in total[:3]:
        part.fill(0.0)
    h, e, ph, pl = (scratch(name, PANEL * CHUNK * rows) for name in ("h", "e", "ph", "pl"))
    first, stop = view.common
    for j0, j1 in view.panels():
        keys = j1 - j0
        scores.shifted(j0, j1, reference, h, e)
        if j0 < first or j1 > stop:
            conceal(h, view.first, view.stop, view.mask, j0, j1)
        exponentials(h, e, ph, pl, keys * rows)
        padded = -(-keys // CHUNK) * CHUNK
        p = scratch("p", padded, slices, rows)
        if padded > keys:
            p[keys:] = 0.0
            ph[keys * rows : padded * rows] = 0.0
        cut_weights(ph, pl, keys, values.bits, GROUP, p, total.sums)
        add_panel(total, p, ph, values, j0, j1)
    return total


def add_panel(total: Averages, p: Array, ph: Array, values: Values, j0: int, j1: int) -> None:
    keys, slices, rows = p.shape
    d, chunks, first, listed = values.head.shape[1], keys // CHUNK, j0 // CHUNK, values.cut
    c, a = scratch("c", chunks, d, slices * rows), scratch("a", chunks, d, rows)
    inside = slice(first, first + chunks)
    np.matmul(values.head[inside], p.reshape(chunks, CHUNK, slices * rows), out=c)
    np.matmul(values.size[inside], ph[: keys * rows].reshape(chunks, CHUNK, rows), out=a)
    gather(
        c, a, p, j0, j1, listed.start, listed.column, listed.middle, listed.tail,
        scratch("gathered", 4, d + 1, rows), total.h, total.low, total.magnitude,
    )  # fmt: skip


def compute(
    q: Array,
    keys: Keys,
    values: Values,
    rules: Rules,
    extras: Extras,
    chosen: slice | Indices,
    slices: int,
) -> Result:
    """
    The rows `chosen` of one head, with 3 or 4 slices of p.

    Shapes      q: (n_q, d), of which the rows `chosen` are computed.
    Guarantee   those of `averages` and `logarithms`, where Result.certified; empty rows are left
                to the caller.
    Requires    finite q, keys, values, bias and sink; -inf in bias removed by the mask.
    Special     none.
    Source      docs/theory/fast-oracle.md.
    """
    view = view_of(rules, extras, chosen)
    scores = scores_of(q, keys, rules, extras, view, chosen)
    total = _averages(scores, values, view, slices)
    output = scratch("output", 4, values.head.shape[1], scores.shift.reference.size)
    return finish(total, scores.shift, values, view.chunks, slices, rules.request, output)
