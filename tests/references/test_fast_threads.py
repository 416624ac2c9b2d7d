"""Threads change the order of the work and nothing else."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from references.fast.threads import both, each, pool, while_it_pays

THREADS = pytest.mark.parametrize("threads", [1, 2, 3])


def kept(threads: int, pays: bool, first_takes: float = 0.02) -> dict[int, int]:
    """What `while_it_pays` keeps of ten squares; the first takes longest: others overtake it."""
    found: dict[int, int] = {}

    def square(job: int) -> int:
        time.sleep(first_takes if job == 0 else 0.0)
        return job * job

    with pool(threads) as workers:
        while_it_pays(square, found.__setitem__, list(range(10)), lambda: pays, workers)
    return found


@THREADS
def test_others_are_kept_only_where_the_first_says_so(threads: int) -> None:
    """All ten, or the first alone, even where the others are ready before it."""
    assert kept(threads, pays=True) == {job: job * job for job in range(10)}
    assert kept(threads, pays=False) == {0: 0}


@THREADS
def test_nothing_to_do_is_done(threads: int) -> None:
    """No job, no call of pays."""
    with pool(threads) as workers:
        while_it_pays(abs, lambda job, made: None, [], lambda: pytest.fail("called"), workers)


@THREADS
@pytest.mark.parametrize("wrong", [0, 5])
def test_an_error_of_a_job_reaches_the_caller(threads: int, wrong: int) -> None:
    """Whether the first job fails, for which the others wait, or another one."""

    def fails(job: int) -> int:
        if job == wrong:
            raise ValueError(f"job {job}")
        return job

    with pool(threads) as workers, pytest.raises(ValueError, match=f"job {wrong}"):
        while_it_pays(fails, lambda job, made: None, list(range(8)), lambda: True, workers)
    # the threads are kept, and are as good for the next call
    assert kept(threads, pays=True) == {job: job * job for job in range(10)}


@THREADS
def test_each_and_both_give_what_they_are_asked_for(threads: int) -> None:
    """Every job once; two results in their order."""
    seen: list[int] = []
    with pool(threads) as workers:
        each(seen.append, range(20), workers)
        assert both(lambda: "first", lambda: 2, workers) == ("first", 2)
    assert sorted(seen) == list(range(20))


def test_calls_share_their_threads_and_a_call_may_have_its_own() -> None:
    """However many calls there are, no more threads than were asked for; its own end with it."""
    kept(3, pays=True)
    before = threading.active_count()
    for _ in range(5):
        kept(3, pays=True)
    with pool(3, keep=False) as mine, pool(3) as shared:
        assert mine is not shared
        each(lambda job: None, range(9), mine)
        assert threading.active_count() > before
    assert threading.active_count() == before


def test_a_process_with_kept_threads_ends() -> None:
    """They do not hold it up."""
    script = (
        "from references.fast.threads import pool, each\nwith pool(2) as p: each(print, [1], p)"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "1\n"
