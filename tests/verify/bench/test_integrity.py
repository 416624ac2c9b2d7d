"""Impossible times: each check accuses what cannot be, and nothing that can."""

from __future__ import annotations

import pytest

from verify.bench.integrity import Clocks, problems, remembered, remembers

HONEST = Clocks((1e-3, 1.1e-3, 1.05e-3), (3e-3, 3.2e-3, 3.1e-3))


def test_an_honest_kernel_is_not_accused() -> None:
    """At the roofline, with a conversation like the reference's or without a reference."""
    assert problems(HONEST, 1e-3, 2e-3) == ()
    assert problems(HONEST, 1.9e-3, None) == ()


def test_a_time_below_the_floor_is_impossible() -> None:
    """Faster than twice the machine's measured roofline."""
    (found,) = problems(HONEST, 2.1e-3, 2e-3)
    assert "below the physical floor" in found


def test_a_worker_that_tells_of_more_time_than_passed_is_accused() -> None:
    (found,) = problems(Clocks((5e-3,), (3e-3,)), 1e-3, None)
    assert "of which the parent saw" in found
    (found,) = problems(Clocks((-1e-3,), (3e-3,)), -1.0, None)
    assert "of which the parent saw" in found


def test_time_that_only_the_parent_saw_is_found() -> None:
    """50 ms by our clock, of which the worker tells 1 ms; the reference's conversation takes 2."""
    hidden = Clocks((1e-3,) * 3, (50e-3, 60e-3, 51e-3))
    (found,) = problems(hidden, 1e-3, 2e-3)
    assert "more than any conversation takes" in found
    assert problems(hidden, 1e-3, 30e-3) == ()


def test_a_busy_machine_accuses_nobody() -> None:
    """One undisturbed round explains the others; a disturbed roofline is ten times as patient."""
    delayed = Clocks((1e-3,) * 3, (50e-3, 3e-3, 80e-3))
    assert problems(delayed, 1e-3, 2e-3) == ()
    assert problems(HONEST, 19e-3, 2e-3, quiet=False) == ()
    assert problems(HONEST, 21e-3, 2e-3, quiet=False) != ()


@pytest.mark.parametrize(("device", "agrees"), [(0.95e-3, True), (0.3e-3, False), (2e-3, False)])
def test_events_and_wall_clock_must_agree(device: float, agrees: bool) -> None:
    """CUDA events of a third, or twice, of the synchronised time: other streams, or a lie."""
    clocks = Clocks(HONEST.inside, HONEST.outside, (device,) * 3)
    found = problems(clocks, 1e-3, 2e-3)
    assert (found == ()) is agrees
    assert agrees or "CUDA events" in found[0]


def test_a_kernel_that_remembers_is_accused_where_every_pair_agrees() -> None:
    """Repeated inputs in half the time; one pair that does not show it acquits."""
    assert "2 times less time" in remembered([(2.0, 1.0)] * 7)[0]
    assert remembered([(2.0, 1.0)] * 6 + [(2.0, 1.9)]) == ()
    assert not remembers([(2.0, 1.81)] * 7)
    assert not remembers([])
