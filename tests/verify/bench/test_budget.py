"""The budget: a run ends in time, and what is left out says why."""

from __future__ import annotations

from verify.bench.budget import FEW_ROUNDS, LEAST_ROUNDS, MOST_ROUNDS, Budget, rounds


def test_each_timing_gets_an_equal_part_of_what_is_left() -> None:
    budget = Budget(100.0, planned=4)
    assert 24 < budget.share() <= 25
    assert 33 < budget.share() <= 34  # nothing was spent: a third of all


def test_a_call_that_would_overrun_is_left_out_before_it_begins() -> None:
    """Ten times the work of a round of one second does not fit into twenty."""
    budget = Budget(100.0, planned=4)
    assert budget.too_long("a", 1e9, 20.0) is None  # nothing is known yet
    budget.learn("a", 1.0, 1.0)
    reason = budget.too_long("a", 10.0, 20.0)
    assert reason is not None
    assert "about 10.0 s" in reason
    assert budget.too_long("a", 4.0, 20.0) is None
    assert budget.too_long("b", 1e9, 20.0) is None
    budget.learn("a", 100.0, 10.0)  # ten times as fast: what came before was mostly overhead
    assert budget.too_long("a", 10.0, 20.0) is None
    budget.learn("a", 1.0, 1.0)
    assert budget.too_long("a", 10.0, 20.0) is None


def test_rounds_fill_the_seconds_within_limits() -> None:
    assert rounds(0.1, 2.0, 10.0) == 20
    assert rounds(1e-6, 2.0, 10.0) == MOST_ROUNDS
    assert rounds(1.5, 2.0, 10.0) == LEAST_ROUNDS
    assert rounds(3.0, 2.0, 10.0) == FEW_ROUNDS
