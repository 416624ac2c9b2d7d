"""softmax, log_softmax and logsumexp of rows in double-double."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from references import arb
from references.enclosure import ARB, FAST, FINITE, Array, Enclosure
from references.fast.compiled import Indices, kernel
from references.fast.doubledouble import divide, fast_two_sum, multiply, two_sum
from references.fast.exponential import exponentials
from references.fast.inputs import FLOOR, Booleans, extra_bits
from references.fast.quotient import ABOVE, U

GROUP = 64  # terms added up before they join the double-double sum
RELATIVE = 2.0**-90  # of a probability, and absolute of ln l, beside PER_TERM n
PER_TERM = 2.0**-108
DROPPED_VALUE = 2.0**-431  # absolute error of a probability whose exp is taken as 0
SMALLEST = 2.0**-340  # a radius is asked for relative to max(p, SMALLEST)
BLOCK = 2**18  # elements at a time


@kernel("void(f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1])")
def weigh(x: Array, ph: Array, pl: Array, sums: Array) -> None:
    """
    exp(x_i - M) = ph + pl, the row sums, and ln of them.

    Shapes      x, ph, pl: (rows, n), n >= 1; sums: (5, rows) = l as hi + lo, ln l as hi + lo, M.
    Guarantee   relative error of every exp below 2^-93 where x_i - M >= X_MIN, else the exp is 0;
                l up to 2^-92 + n 2^-109 of itself; ln l up to 2^-91 + n 2^-108.
    Requires    finite x, n <= 2^24.
    Source      docs/theory/fast-oracle.md, part 7.
    """
    rows, n = x.shape
    xh = np.empty(n)
    xl = np.empty(n)
    wh = np.empty(1)
    wl = np.empty(1)
    for r in range(rows):
        top = x[r, 0]
        for i in range(n):
            top = max(top, x[r, i])
        for i in range(n):
            xh[i], xl[i] = two_sum(x[r, i], -top)
        exponentials(xh, xl, ph[r], pl[r], n)
        h = 0.0
        low = 0.0
        for group in range(0, n, GROUP):
            gh = 0.0
            gl = 0.0
            for i in range(group, min(group + GROUP, n)):
                gh, error = two_sum(gh, ph[r, i])
                gl += error + pl[r, i]
            h, error = two_sum(h, gh)
            h, low = fast_two_sum(h, low + (error + gl))
        xh[0] = -np.log(h)
        xl[0] = 0.0
        exponentials(xh, xl, wh, wl, 1)
        p, q = multiply(h, low, wh[0], wl[0])
        s, error = two_sum(p, -1.0)
        small = s + (error + q)
        sums[0, r] = h
        sums[1, r] = low
        sums[2, r], sums[3, r] = fast_two_sum(-xh[0], small - 0.5 * small * small)
        sums[4, r] = top


@kernel("void(f8[:,::1], f8[:,::1], f8[:,::1])")
def normalise(ph: Array, pl: Array, sums: Array) -> None:
    """(ph, pl) /= l, up to 32 u^2 of itself."""
    for r in range(ph.shape[0]):
        for i in range(ph.shape[1]):
            ph[r, i], pl[r, i] = divide(ph[r, i], pl[r, i], sums[0, r], sums[1, r])


@kernel("void(f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1])")
def subtract(x: Array, sums: Array, h: Array, e: Array) -> None:
    """h + e = (x - M) - ln l, up to 2^-103 of the two sizes."""
    for r in range(x.shape[0]):
        for i in range(x.shape[1]):
            d, low = two_sum(x[r, i], -sums[4, r])
            s, error = two_sum(d, -sums[2, r])
            h[r, i], e[r, i] = fast_two_sum(s, error + (low - sums[3, r]))


@dataclass(frozen=True)
class Weighed:
    """Rows x, exp(x - M) = ph + pl, and the sums of `weigh`."""

    x: Array
    ph: Array
    pl: Array
    sums: Array

    @property
    def error(self) -> Array:
        """Relative of l, absolute of ln l; (rows, 1)."""
        small = np.abs(self.sums[3])
        error = RELATIVE + PER_TERM * self.x.shape[1] + 4.0 * U * small
        return np.where(small < 2.0**-40, error, np.inf)[:, None]


def weighed(x: Array) -> Weighed:
    """exp of the shifted rows, with their sums."""
    found = Weighed(x, np.empty_like(x), np.empty_like(x), np.empty((5, len(x))))
    weigh(x, found.ph, found.pl, found.sums)
    return found


def _softmax(w: Weighed) -> tuple[Array, Array, Array]:
    normalise(w.ph, w.pl, w.sums)
    return w.ph, w.pl, w.ph * w.error + DROPPED_VALUE


def _log_softmax(w: Weighed) -> tuple[Array, Array, Array]:
    h, e = np.empty_like(w.x), np.empty_like(w.x)
    subtract(w.x, w.sums, h, e)
    return h, e, w.error + 2.0**-101 * (np.abs(h) + w.sums[2][:, None])


def _logsumexp(w: Weighed) -> tuple[Array, Array, Array]:
    s, error = _two_sums(w.sums[4], w.sums[2])
    h, e = _two_sums(s, error + w.sums[3])
    return h, e, w.error[:, 0] + 2.0**-101 * (np.abs(h) + w.sums[2])


def _two_sums(a: Array, b: Array) -> tuple[Array, Array]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _relative(value: Array) -> Array:
    return np.maximum(value, SMALLEST)


def _at_least_one(value: Array) -> Array:
    return np.maximum(np.abs(value), 1.0)


@dataclass(frozen=True)
class Rule:
    """One function of rows: what makes it, what a radius is relative to, Arb's function."""

    make: Callable[[Weighed], tuple[Array, Array, Array]]
    size: Callable[[Array], Array]
    arb: Callable[..., Enclosure]
    reduces: bool


RULES = {
    "softmax": Rule(_softmax, _relative, arb.softmax, False),
    "log_softmax": Rule(_log_softmax, _at_least_one, arb.log_softmax, False),
    "logsumexp": Rule(_logsumexp, _at_least_one, arb.logsumexp, True),
}


def enclose(rule: Rule, x: Array, request: float) -> Enclosure:
    """
    The enclosure of a function of rows, each row by the first tier that meets the request.

    Shapes      x: (rows, n); returns (rows, n) or (rows,).
    Guarantee   radius <= request size(value), or inf.
    Requires    x holds binary32 values.
    Special     rows that are not finite, and rows without elements, are made by Arb.
    Source      docs/theory/fast-oracle.md, part 7.
    """
    rows, n = x.shape
    shape = (rows,) if rule.reduces else (rows, n)
    truth = Enclosure(
        np.zeros(shape), np.zeros(shape), np.full(shape, np.inf),
        np.full(shape, FINITE, np.uint8), np.full(rows, FAST, np.uint8),
    )  # fmt: skip
    left = np.ones(rows, np.bool_)
    if 0 < n <= 2**24:
        finite = np.flatnonzero(np.isfinite(x).all(axis=1))
        step = max(1, BLOCK // n)
        for first in range(0, finite.size, step):
            _fill(rule, truth, left, x, finite[first : first + step], request)
    _by_arb(rule, truth, left, x, request)
    return truth


def _fill(
    rule: Rule, truth: Enclosure, left: Booleans, x: Array, rows: Indices, request: float
) -> None:
    h, e, radius = rule.make(weighed(x[rows]))
    met = radius * ABOVE <= request * rule.size(h)
    good = met if rule.reduces else met.all(axis=1)
    keep = rows[good]
    truth.hi[keep], truth.lo[keep], truth.radius[keep] = h[good], e[good], radius[good]
    left[keep] = False


def _by_arb(rule: Rule, truth: Enclosure, left: Booleans, x: Array, request: float) -> None:
    if not left.any():
        return
    found = rule.arb(x[left], extra_bits=extra_bits(request))
    finite = (found.classes & FINITE) != 0
    met = found.radius <= np.maximum(request * rule.size(found.hi), FLOOR)
    truth.hi[left], truth.lo[left], truth.classes[left] = found.hi, found.lo, found.classes
    truth.radius[left] = np.where(finite & ~met, np.inf, found.radius)
    truth.tier[left] = ARB
