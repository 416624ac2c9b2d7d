"""Error measures: intervals that contain the exact error, and figures known in closed form."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from references.enclosure import FINITE, Enclosure
from verify.formats import BINARY16
from verify.metrics import HISTOGRAM_EDGES, error_interval, measure, row_sum_defect


def enclosure(hi: np.ndarray, lo: np.ndarray, radius: float) -> Enclosure:
    shape = hi.shape
    return Enclosure(
        hi,
        lo,
        np.full(shape, radius),
        np.full(shape, FINITE, np.uint8),
        np.zeros(shape[:-1], np.uint8),
    )


def test_error_interval_contains_the_exact_error() -> None:
    """2000 random outputs, near and far, checked in rationals at both ends of the enclosure."""
    generator = np.random.default_rng(3)
    hi = generator.standard_normal((1, 2000)) * 2.0 ** generator.integers(-40, 40, (1, 2000))
    lo = hi * 2.0**-54 * generator.uniform(-1, 1, hi.shape)
    values = hi * (
        1 + 2.0 ** generator.integers(-60, -5, hi.shape) * generator.choice([-1, 1], hi.shape)
    )
    truth = enclosure(hi, lo, 1e-30)
    error = error_interval(values, truth)
    for i in range(hi.size):
        middle = Fraction(hi.flat[i]) + Fraction(lo.flat[i])
        for end in (middle - Fraction(1e-30), middle + Fraction(1e-30)):
            exact = abs(Fraction(values.flat[i]) - end)
            assert Fraction(error.lower.flat[i]) <= exact <= Fraction(error.upper.flat[i])


def test_error_interval_is_tight() -> None:
    """It is no wider than the radius and 2^-48 of the error ask for."""
    hi = np.array([[1.0]])
    error = error_interval(np.array([[1.5]]), enclosure(hi, np.zeros_like(hi), 0.0))
    assert error.upper[0, 0] - error.lower[0, 0] < 0.5 * 2.0**-48


def test_correct_rounding_measures_as_one() -> None:
    """over_rounding and rmse_over_rounding are 1 and max_ulp at most a half for rounded truth."""
    exact = np.random.default_rng(5).standard_normal((20, 50))
    values = BINARY16.round(exact)
    truth = enclosure(exact, np.zeros_like(exact), 0.0)
    found = measure(values, truth, error_interval(values, truth), BINARY16, np.abs(exact))
    assert found["over_rounding"] == pytest.approx(1.0)
    assert found["rmse_over_rounding"] == pytest.approx(1.0)
    assert 0.4 < found["max_ulp"] <= 0.5
    assert abs(found["mean_ulp"]) < 0.05
    assert found["cosine"] == pytest.approx(1.0)


def test_truncation_shows_as_a_signed_mean() -> None:
    """Toward zero on positive numbers: a mean of minus half an ulp and a huge z-score."""
    exact = 1 + np.random.default_rng(6).random((64, 64))
    values = BINARY16.round(exact, "RZ")
    truth = enclosure(exact, np.zeros_like(exact), 0.0)
    found = measure(values, truth, error_interval(values, truth), BINARY16, exact)
    assert -0.55 < found["mean_ulp"] < -0.45
    assert found["z"] < -50


def test_histogram_counts_every_element_once() -> None:
    """The bins are open at both ends."""
    exact = np.array([[1.0, 1.0, 1.0, 1.0]])
    values = np.array([[1.0, 1.0 + 2.0**-10, 0.5, 400.0]])
    truth = enclosure(exact, np.zeros_like(exact), 0.0)
    found = measure(values, truth, error_interval(values, truth), BINARY16, exact)
    assert sum(found["histogram"]) == 4
    assert len(found["histogram"]) == len(HISTOGRAM_EDGES) + 1
    assert found["histogram"][-1] == 1


def test_row_sum_defect_ignores_rows_that_are_not_finite() -> None:
    """The worst finite row counts; without one there is no figure."""
    values = np.array([[0.5, 0.5], [0.5, 0.25], [np.nan, 1.0]])
    assert row_sum_defect(values) == 0.25
    assert row_sum_defect(values[2:]) is None
