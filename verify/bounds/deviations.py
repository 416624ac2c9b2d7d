"""Deviations: weighted sums of |v_j - O|, exactly or by the Cauchy-Schwarz inequality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from verify.bounds.folding import Rows
from verify.bounds.statement import Array

_CHUNK = 2**18  # differences treated at a time
EXACT_LIMIT = 2**29  # differences in a call, beyond which Cauchy-Schwarz is used


@dataclass(frozen=True)
class Deviations:
    """
    Weighted mean deviations of the values from the output.

    Shapes      sums: one (slabs, rows, d_v) for each weight; hull (slabs, rows, d_v).
    Guarantee   sums[i] >= sum_j W_ij |v_j - O|,  hull >= max |v_j - O| over live keys.
    """

    sums: list[Array]
    hull: Array


def deviations(rows: Rows, weights: Sequence[Array]) -> Deviations:
    """
    sum_j W_j |v_j - O| for several weights at once.

    Shapes      weights: each (slabs, rows, n), not negative, 0 where not live.
    Guarantee   see `Deviations`.  The sum itself; in calls of more than EXACT_LIMIT differences
                sqrt(S (sum W v^2 - 2 O sum W v + O^2 S) + slack), S = sum W,
                slack = 8 (n + 8) 2^-53 S (sum W v^2 + O^2 S), which covers the rounding of the
                three matrix products; hull then includes keys that are not live.
    Source      docs/theory/bounds.md, section 8.
    """
    if rows.differences <= EXACT_LIMIT:
        found = _exact(rows, weights)
    else:
        found = _cauchy_schwarz(rows, weights)
    unsure = rows.output_error + 2.0**-49 * np.abs(rows.output)
    sums = [
        total * (1 + 2.0**-40) + weight.sum(axis=2, keepdims=True) * unsure
        for total, weight in zip(found.sums, weights, strict=True)
    ]
    return Deviations(sums, found.hull * (1 + 2.0**-40) + unsure)


def _exact(rows: Rows, weights: Sequence[Array]) -> Deviations:
    slabs, count, n = rows.p.shape
    d_v = rows.output.shape[2]
    stacked = np.stack(weights, axis=2)  # (slabs, rows, weights, n)
    sums = np.zeros((slabs, count, len(weights), d_v))
    hull = np.zeros((slabs, count, d_v))
    all_live = bool(rows.live.all())
    if all_live:
        hull = _hull_of_all(rows)
    step = max(1, _CHUNK // max(1, n * d_v))
    together = max(1, step // max(1, count))
    for first in range(0, slabs, together):
        for start in range(0, count, step):
            at = slice(first, first + together), slice(start, start + step)
            apart = rows.values[at[0], None] - rows.output[at][:, :, None, :]
            np.abs(apart, out=apart)
            if not all_live:
                apart *= rows.live[at][..., None]
                hull[at] = apart.max(axis=2, initial=0.0)
            np.matmul(stacked[at], apart, out=sums[at])
    return Deviations([sums[:, :, i] for i in range(len(weights))], hull)


def _hull_of_all(rows: Rows) -> Array:
    if rows.n == 0:
        return np.zeros(rows.output.shape)
    highest = rows.values.max(axis=1, keepdims=True)
    lowest = rows.values.min(axis=1, keepdims=True)
    return np.asarray(np.maximum(np.maximum(highest - rows.output, rows.output - lowest), 0.0))


def _cauchy_schwarz(rows: Rows, weights: Sequence[Array]) -> Deviations:
    squares = rows.values**2
    sums = []
    for weight in weights:
        total = weight.sum(axis=2, keepdims=True)
        second, constant = weight @ squares, total * rows.output**2
        spread = second - 2 * rows.output * (weight @ rows.values) + constant
        slack = 8 * (rows.n + 8) * 2.0**-53 * (second + constant)
        sums.append(np.sqrt(total * (np.maximum(spread, 0.0) + slack)))
    return Deviations(sums, _hull_of_all(rows))


def mean_square_deviation(rows: Rows, weight: Array) -> Array:
    """sum_j W_j (v_j - O)^2, without error bound (for Theorem 2): (slabs, rows, d_v)."""
    total = weight.sum(axis=2, keepdims=True)
    spread = weight @ rows.values**2 - 2 * rows.output * (weight @ rows.values)
    return np.asarray(np.maximum(spread + total * rows.output**2, 0.0))
