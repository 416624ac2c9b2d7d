"""The judge: each verdict seen, at its edge, and NaN never read as agreement."""

from __future__ import annotations

import numpy as np
import pytest

from references.enclosure import ANYTHING, FINITE, NAN, POSITIVE_INFINITY, Enclosure
from verify import findings
from verify.judge import Judgement, Limits, Verdict, judge, worst
from verify.metrics import error_interval


def enclosure(hi: list[float], radius: float = 0.0, classes: int = FINITE) -> Enclosure:
    h = np.array(hi)
    return Enclosure(
        h, np.zeros_like(h), np.full_like(h, radius), np.full(h.shape, classes, np.uint8),
        np.zeros((), np.uint8),
    )  # fmt: skip


def verdict(
    values: list[float],
    truth: Enclosure,
    bound: float,
    *,
    flagged: bool = False,
    excused: bool = False,
    ignored: bool = False,
    signal: float = np.inf,
    probable: float = np.inf,
) -> Judgement:
    v = np.array(values)
    limits = Limits(
        np.full_like(v, bound),
        np.full_like(v, probable),
        np.full(v.shape, flagged),
        np.full(v.shape, excused),
        np.full(v.shape, ignored),
        np.full_like(v, signal),
    )
    return judge(v, truth, error_interval(v, truth), limits)


def test_error_equal_to_the_bound_passes_and_one_float_more_fails() -> None:
    """The comparison is exact up to the 2^-50 by which the interval is widened."""
    truth = enclosure([1.0])
    assert verdict([1.25], truth, 0.25 * (1 + 2.0**-49)).verdict is Verdict.PASS
    assert verdict([1.25], truth, 0.25 * (1 - 2.0**-49)).verdict is Verdict.FAIL


def test_bound_inside_the_error_interval_is_inconclusive() -> None:
    """A radius that straddles the bound decides nothing, and nothing is not green."""
    found = verdict([1.25], enclosure([1.0], radius=0.01), 0.25)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.counts["inconclusive"] == 1


def test_bound_just_below_the_end_of_the_error_is_inconclusive() -> None:
    """However little is missing."""
    found = verdict([1.25], enclosure([1.0], radius=1e-9), 0.25)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert verdict([1.25], enclosure([1.0], radius=1e-9), 0.25 + 2e-9).verdict is Verdict.PASS


def test_overflow_excuses_nothing_where_the_truth_is_nan() -> None:
    """A flag speaks of a finite truth; a NaN that is missing is missing."""
    found = verdict([1.0], enclosure([np.nan], classes=NAN), 1.0, flagged=True, excused=True)
    assert (found.verdict, found.check) == (Verdict.FAIL, "class")
    found = verdict([np.inf], enclosure([np.nan], classes=NAN), 1.0, flagged=True, excused=True)
    assert found.verdict is Verdict.FAIL


def test_infinite_radius_is_inconclusive() -> None:
    """Where the oracle knows nothing, no verdict is given."""
    assert verdict([1.0], enclosure([1.0], radius=np.inf), 10.0).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("value", [1.0, np.nan, np.inf])
def test_unspecified_truth_accepts_every_class_and_is_out_of_scope(value: float) -> None:
    """A gradient at an infinite score: no verdict is owed, and nothing is called inconclusive."""
    found = verdict([value], enclosure([0.0], radius=np.inf, classes=ANYTHING), 1.0)
    assert found.verdict is Verdict.OUT_OF_SCOPE
    assert found.counts["unspecified"] == 1


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_non_finite_output_for_finite_truth_fails_the_property_finite(value: float) -> None:
    """NaN compares false with every bound and must not slip through."""
    found = verdict([value], enclosure([1.0]), np.inf)
    assert (found.verdict, found.check) == (Verdict.FAIL, "finite")


def test_nan_bound_is_never_agreement() -> None:
    """A bound that is not a number lets nothing pass."""
    assert verdict([1.0], enclosure([1.0]), np.nan).verdict is Verdict.INCONCLUSIVE


def test_flagged_overflow_is_out_of_scope_only_where_the_model_excuses_it() -> None:
    """A flag takes an element out of the bound's scope; only an excuse forgives infinity."""
    truth = enclosure([1.0])
    forgiven = verdict([np.inf], truth, 0.1, flagged=True, excused=True)
    assert forgiven.verdict is Verdict.OUT_OF_SCOPE
    assert verdict([np.inf], truth, 0.1, flagged=True).verdict is Verdict.FAIL


def test_what_the_kernel_declares_nothing_about_is_ignored() -> None:
    """NaN, infinity, any number: out of scope, whatever the truth."""
    for value in (np.nan, np.inf, 5.0):
        found = verdict([value], enclosure([1.0]), 0.1, ignored=True)
        assert found.verdict is Verdict.OUT_OF_SCOPE


def test_reason_tells_what_is_not_declared_from_what_overflows() -> None:
    """Rows without a declaration are not called an overflow."""
    truth = enclosure([1.0])
    free = verdict([np.nan], truth, 1.0, ignored=True)
    over = verdict([np.inf], truth, 1.0, flagged=True, excused=True)
    assert free.counts["unspecified"] == free.counts["flagged"] == 1
    assert "declares nothing" in findings.out_of_scope(free)
    assert findings.out_of_scope(over) == "overflow permitted"


def test_bound_above_the_signal_is_vacuous_not_a_pass() -> None:
    """Where zeros would pass, nothing is certified."""
    found = verdict([0.0], enclosure([0.5]), 1.0, signal=0.75)
    assert found.verdict is Verdict.OUT_OF_SCOPE
    assert found.vacuous


def test_bound_equal_to_the_signal_is_vacuous_and_an_exact_zero_is_not() -> None:
    """Zeros would pass the first; of the second, zero is what is asked for."""
    assert verdict([0.5], enclosure([1.0]), 1.0, signal=1.0).verdict is Verdict.OUT_OF_SCOPE
    assert verdict([0.0], enclosure([0.0]), 0.0, signal=0.0).verdict is Verdict.PASS


def test_error_beyond_a_vacuous_bound_still_fails() -> None:
    """A bound that promises little still refutes what breaks it."""
    assert verdict([9.0], enclosure([0.5]), 1.0, signal=0.75).verdict is Verdict.FAIL


def test_infinity_must_have_the_right_sign() -> None:
    """+inf is accepted where the truth is +inf, -inf and numbers are not."""
    truth = enclosure([np.inf], classes=POSITIVE_INFINITY | NAN)
    assert verdict([np.inf], truth, 0.0).verdict is Verdict.PASS
    assert verdict([np.nan], truth, 0.0).verdict is Verdict.PASS
    assert verdict([-np.inf], truth, 0.0).verdict is Verdict.FAIL
    assert verdict([1.0], truth, 0.0).verdict is Verdict.FAIL


def test_missing_nan_fails_the_class_check() -> None:
    """A number where the truth is NaN is a failure of its own kind."""
    found = verdict([1.0], enclosure([np.nan], classes=NAN), np.inf)
    assert (found.verdict, found.check) == (Verdict.FAIL, "class")


def test_zero_bound_asks_for_the_exact_value() -> None:
    """Bound 0 with error 0 passes; any error is infinitely far beyond it."""
    assert verdict([1.0], enclosure([1.0]), 0.0).verdict is Verdict.PASS
    found = verdict([1.5], enclosure([1.0]), 0.0)
    assert (found.verdict, found.tightness) == (Verdict.FAIL, np.inf)


def test_suspect_is_counted_and_does_not_fail() -> None:
    """Above the probabilistic bound but below the proved one: a mark, not a failure."""
    found = verdict([1.25], enclosure([1.0]), 0.5, probable=0.1)
    assert (found.verdict, found.counts["suspect"]) == (Verdict.PASS, 1)


def test_precedence_is_that_of_the_decisions() -> None:
    """Integrity > FAIL > ERROR > INCONCLUSIVE > PASS; parts out of scope take nothing away."""
    order = [Verdict.INTEGRITY, Verdict.FAIL, Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.PASS]
    for place, first in enumerate(order):
        assert worst(order[place:]) is first
    assert worst([Verdict.OUT_OF_SCOPE, Verdict.PASS]) is Verdict.PASS
    assert worst([Verdict.OUT_OF_SCOPE]) is Verdict.OUT_OF_SCOPE
    assert worst([]) is Verdict.INCONCLUSIVE
