"""Limits: what a declaration adds to a bound, and what it excuses."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from references.enclosure import FINITE, Enclosure
from verify.bounds import Bound
from verify.declaration import Declaration
from verify.formats import BINARY32
from verify.kernel import Kernel
from verify.limits import lse_limits, output_limits
from verify.truth import Truth

ONES = np.ones((1, 1, 3))
NONE = np.zeros((1, 1, 3), np.bool_)
FLAGGED = np.array([[[True, False, False]]])


def enclosure(hi: NDArray[np.float64]) -> Enclosure:
    classes = np.full(hi.shape, FINITE, np.uint8)
    return Enclosure(hi, 0 * hi, 0 * hi, classes, np.zeros(hi.shape[:-1], np.uint8))


def limit(size: float) -> Bound:
    """A bound of one row of three outputs, and of three log-sum-exps."""
    return Bound(
        total=size * ONES, parts={}, probable=size * ONES, flagged=FLAGGED,
        lse=size * ONES, lse_flagged=FLAGGED,
    )  # fmt: skip


@pytest.fixture
def kernel() -> Kernel:
    """Only its declaration counts here."""
    return Kernel("mine", "attention", frozenset(), Declaration(), (), (), {}, {})


def truth(lse: float) -> Truth:
    return Truth(enclosure(ONES), enclosure(lse * ONES), ONES, np.array([[False]]), NONE)


@pytest.mark.parametrize(("size", "lse"), [(1e-3, 10.0), (0.0, -300.0), (1e-30, 0.0)])
def test_base_two_costs_a_division_and_two_roundings(
    size: float, lse: float, kernel: Kernel
) -> None:
    """The error over ln 2, rounded twice, and 2 u |LSE|; no more than a thousandth above."""
    two = replace(kernel, declaration=Declaration(lse_base="2"))
    found = lse_limits(limit(size), truth(lse), two, shifted=True).bound
    u = BINARY32.u
    wanted = size / math.log(2) * (1 + u) ** 2 + 2 * u * abs(lse)
    assert (found >= wanted).all()
    assert (found <= 1.001 * wanted).all()
    assert (lse_limits(limit(size), truth(lse), kernel, shifted=True).bound == size).all()


def test_base_two_may_overflow_where_the_natural_logarithm_does_not(kernel: Kernel) -> None:
    """0.7 of the largest number fits, and its quotient by ln 2 does not."""
    two = replace(kernel, declaration=Declaration(lse_base="2"))
    for share, beyond in ((0.99, False), (1.001, True)):
        of_two = truth(share * BINARY32.largest)
        found = lse_limits(limit(1.0), of_two, two, shifted=True)
        assert np.array_equal(found.flagged, FLAGGED | beyond)
        assert np.array_equal(found.excused, FLAGGED | beyond)
        assert np.array_equal(lse_limits(limit(1.0), of_two, kernel, True).flagged, FLAGGED)


def test_missing_shift_excuses_no_infinity(kernel: Kernel) -> None:
    """Flags excuse what is not finite in a kernel that subtracts the maximum, and in no other."""
    for shifted in (True, False):
        for found in (
            output_limits(limit(1.0), truth(1.0), shifted),
            lse_limits(limit(1.0), truth(1.0), kernel, shifted),
        ):
            assert np.array_equal(found.excused, FLAGGED & shifted)
            assert np.array_equal(found.flagged, FLAGGED)
