"""Gradients of softmax and log_softmax of rows in double-double."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from references import arb
from references.enclosure import ARB, FAST, FINITE, Array, Enclosure
from references.fast.compiled import kernel
from references.fast.differentials import add
from references.fast.doubledouble import multiply
from references.fast.inputs import Booleans, extra_bits
from references.fast.quotient import ABOVE, U
from references.fast.rows import BLOCK, DROPPED_VALUE, SMALLEST, Weighed, normalise, weighed

# Of some rows: dx as hi and lo, its radius, and what the request is relative to.
Found = tuple[Array, Array, Array, Array]


@kernel("void(f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[::1])")
def differentiate_rows(ph: Array, pl: Array, dy: Array, h: Array, e: Array, spread: Array) -> None:
    """
    h + e = y (dy - D), D = sum y dy; spread = B = sum y |dy|.

    Shapes      ph, pl (y = ph + pl), dy, h, e: (rows, n); spread: (rows,).
    Guarantee   (5 n + 32) u^2 y (|dy| + B) for exact y; B up to (n + 2) u.
    """
    for r in range(ph.shape[0]):
        mean_h = 0.0
        mean_l = 0.0
        size = 0.0
        for i in range(ph.shape[1]):
            p, q = multiply(ph[r, i], pl[r, i], dy[r, i], 0.0)
            mean_h, mean_l = add(mean_h, mean_l, p, q)
            size += abs(p)
        spread[r] = size
        for i in range(ph.shape[1]):
            g, low = add(dy[r, i], 0.0, -mean_h, -mean_l)
            h[r, i], e[r, i] = multiply(ph[r, i], pl[r, i], g, low)


@kernel("void(f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1])")
def subtract_sums(ph: Array, pl: Array, dy: Array, sums: Array, h: Array, e: Array) -> None:
    """
    h + e = dy - y S.

    Shapes      sums: (2, rows) = S as hi and lo; the others (rows, n).
    Guarantee   16 u^2 (|dy| + y |S|) for exact y and S.
    """
    for r in range(ph.shape[0]):
        for i in range(ph.shape[1]):
            p, q = multiply(ph[r, i], pl[r, i], sums[0, r], sums[1, r])
            h[r, i], e[r, i] = add(dy[r, i], 0.0, -p, -q)


def _softmax(w: Weighed, dy: Array) -> Found:
    normalise(w.ph, w.pl, w.sums)
    h, e, spread = np.empty_like(dy), np.empty_like(dy), np.empty(len(dy))
    differentiate_rows(w.ph, w.pl, dy, h, e, spread)
    n, size = dy.shape[1], np.abs(dy) + spread[:, None]
    relative = 2.0 * w.error + (5.0 * n + 64.0) * U * U
    largest = np.abs(dy).max(axis=1, initial=0.0)[:, None] + spread[:, None]
    missed = np.where(
        np.all(w.ph > 0.0, axis=1, keepdims=True), 0.0, 4.0 * n * DROPPED_VALUE * largest
    )
    radius = (w.ph * size * relative + missed) * ABOVE
    return h, e, radius, np.maximum(w.ph, SMALLEST) * size


def _log_softmax(w: Weighed, dy: Array) -> Found:
    normalise(w.ph, w.pl, w.sums)
    high = [math.fsum(row) for row in dy.tolist()]
    low = [math.fsum([*row, -s]) for row, s in zip(dy.tolist(), high, strict=True)]
    sums, h, e = np.array([high, low]), np.empty_like(dy), np.empty_like(dy)
    subtract_sums(w.ph, w.pl, dy, sums, h, e)
    total = np.abs(sums[0])[:, None]
    size = np.abs(dy) + w.ph * total
    radius = w.ph * total * w.error + 32.0 * U * U * size + DROPPED_VALUE * total
    return h, e, radius * ABOVE, np.abs(dy) + np.maximum(w.ph, SMALLEST) * total


@dataclass(frozen=True)
class Rule:
    """One gradient: what makes it from y and dy, and Arb's function."""

    make: Callable[[Weighed, Array], Found]
    arb: Callable[..., Enclosure]


RULES = {
    "softmax_gradient": Rule(_softmax, arb.softmax_gradient),
    "log_softmax_gradient": Rule(_log_softmax, arb.log_softmax_gradient),
}


def enclose(rule: Rule, x: Array, dy: Array, request: float) -> Enclosure:
    """
    The enclosure of a gradient of rows, each row by the first tier that meets the request.

    Shapes      x, dy: (rows, n); returns (rows, n).
    Guarantee   radius <= request size, or inf; size = max(y, 2^-340) (|dy| + sum y |dy|) for
                softmax, |dy| + max(y, 2^-340) |sum dy| for log_softmax.
    Requires    x and dy hold binary32 values.
    Special     rows that are not finite are made by Arb.
    Source      docs/theory/fast-oracle.md, part 13.
    """
    truth = Enclosure(
        np.zeros(x.shape), np.zeros(x.shape), np.full(x.shape, np.inf),
        np.full(x.shape, FINITE, np.uint8), np.full(len(x), FAST, np.uint8),
    )  # fmt: skip
    left = np.ones(len(x), np.bool_)
    if 0 < x.shape[1] <= 2**24:
        finite = np.flatnonzero(np.isfinite(x).all(axis=1) & np.isfinite(dy).all(axis=1))
        step = max(1, BLOCK // x.shape[1])
        for first in range(0, finite.size, step):
            rows = finite[first : first + step]
            h, e, radius, size = rule.make(weighed(x[rows]), dy[rows])
            good = (radius * ABOVE <= request * size).all(axis=1)
            keep = rows[good]
            truth.hi[keep], truth.lo[keep], truth.radius[keep] = h[good], e[good], radius[good]
            left[keep] = False
    if left.any():
        _by_arb(rule, truth, left, x, dy, request)
    return truth


def _by_arb(
    rule: Rule, truth: Enclosure, left: Booleans, x: Array, dy: Array, request: float
) -> None:
    """The rows that are left; their radius is below 2^-100 of the size, which is not asked again
    where Arb could not reach it: then it is +inf already."""
    found = rule.arb(x[left], dy[left], extra_bits=extra_bits(request))
    truth.hi[left], truth.lo[left], truth.classes[left] = found.hi, found.lo, found.classes
    truth.radius[left], truth.tier[left] = found.radius, ARB
