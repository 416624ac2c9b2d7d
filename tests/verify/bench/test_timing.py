"""How much a time is to be trusted."""

from __future__ import annotations

import multiprocessing
import time

import pytest

from verify.bench import quiet
from verify.bench.timing import spread, trust


def test_quiet_and_steady_is_good_and_each_disturbance_is_named() -> None:
    assert trust(0.01, 0.0, True, 9, 0.5) == ("good", [])
    for arguments, level, word in (
        ((0.1, 0.0, True, 9, 0.5), "fair", "scatter"),
        ((0.5, 0.0, True, 9, 0.5), "poor", "scatter"),
        ((0.01, 0.5, True, 9, 0.5), "fair", "busy"),
        ((0.01, 2.0, True, 9, 0.5), "poor", "busy"),
        ((0.01, None, True, 9, 0.5), "fair", "cannot be read"),
        ((0.01, 0.0, False, 9, 0.5), "poor", "another bench"),
        ((0.01, 0.0, True, 3, 0.5), "fair", "3 rounds"),
        ((0.01, 0.0, True, 9, 1.2), "fair", "120% of the roofline"),
    ):
        found, doubts = trust(*arguments)
        assert found == level
        assert any(word in doubt for doubt in doubts)


def test_spread_is_the_interquartile_range_over_the_median() -> None:
    assert spread([4.0]) == 0
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(2 / 3)


def _spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


@pytest.mark.skipif(quiet._counters() is None, reason="no /proc/stat here")
def test_another_process_that_works_is_seen() -> None:
    """A spinning process is at least half a core of load on any machine with a core to spare."""
    other = multiprocessing.get_context("spawn").Process(target=_spin, args=(6.0,))
    other.start()
    try:
        assert max(quiet.busy_cores(0.3) or 0.0 for _ in range(10)) > 0.5
    finally:
        other.terminate()
        other.join()


def test_two_benches_do_not_run_at_once() -> None:
    """The second does not get the lock while the first holds it, and does afterwards."""
    with quiet.alone(5.0) as first, quiet.alone(0.0) as second:
        assert first
        assert not second
    with quiet.alone(5.0) as third:
        assert third
