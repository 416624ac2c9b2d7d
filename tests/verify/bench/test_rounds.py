"""Rounds of real workers: pairs, kept outputs, and what is judged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from verify.bench import sampled
from verify.bench.integrity import Clocks, problems
from verify.bench.rounds import CHECKED, Rounds, Times
from verify.bench.session import Ask, Item, Session
from verify.bench.shape import Shape
from verify.certifying import Request, worker_for
from verify.formats import format_named
from verify.judge import Verdict

KERNELS = Path(__file__).parent / "kernels.py"
SHAPES = "prefill:1x2x32x16,rows:8x64"


def name(function: str) -> str:
    return f"{KERNELS}:{function}"


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    names = tuple(map(name, ("softmax", "wrong", "attention", "forgets_last_key")))
    request = Request(names, formats="fp16")
    made = Session(Ask(request, SHAPES, "none", rounds=4, wait=0.0), worker_for(request))
    yield made
    made.close()


def finished(session: Session, function: str, shape: str) -> tuple[Item, Rounds]:
    item = Item(name(function), format_named("fp16"), Shape.parse(shape))
    rounds = session.rounds(item)
    rounds.warm_up()
    for _ in range(6):
        rounds.before()
        rounds.call()
        rounds.after()
    return item, rounds


def verdicts(session: Session, function: str, shape: str) -> set[Verdict]:
    item, rounds = finished(session, function, shape)
    assert len(rounds.kept) == CHECKED
    return {r.verdict for r in session._checked(item, rounds)}


def test_sampled_rows_of_a_right_kernel_pass(session: Session) -> None:
    assert verdicts(session, "softmax", "rows:8x64") == {Verdict.PASS}
    assert verdicts(session, "attention", "prefill:1x2x32x16") == {Verdict.PASS}
    assert verdicts(session, "attention", "decode:2x2x32x16") == {Verdict.PASS}


def test_sampled_rows_of_a_wrong_kernel_are_refuted(session: Session) -> None:
    """A row sum 3 % off, and a key of 32 that is left out."""
    assert verdicts(session, "wrong", "rows:8x64") == {Verdict.FAIL}
    assert verdicts(session, "forgets_last_key", "prefill:1x2x32x16") == {Verdict.FAIL}


def test_the_parents_clock_runs_around_the_workers(session: Session) -> None:
    """Inside is a part of outside; memory is measured where the system tells of it."""
    _, rounds = finished(session, "attention", "prefill:1x2x32x16")
    assert len(rounds.times.inside) == 6
    pairs = zip(rounds.times.inside, rounds.times.outside, strict=True)
    assert all(0 < inside < outside for inside, outside in pairs)
    assert rounds.peak_bytes is None or rounds.peak_bytes >= 0


@pytest.mark.parametrize("function", ["lying", "understating"])
def test_a_clock_that_lies_is_found(function: str) -> None:
    """A kernel that tells of a nanosecond is below the floor of any machine; one that tells of a
    tenth of its 500 ms leaves the rest to the parent's clock."""
    request = Request((name(function),), formats="fp16")
    session = Session(Ask(request, "rows:8x64", rounds=3, wait=0.0), worker_for(request))
    try:
        item = session.plan()[0]
        rounds = session.rounds(item)
        rounds.warm_up()
        for _ in range(3):
            rounds.before()
            rounds.call()
            rounds.after()
        clocks = Clocks(tuple(rounds.times.inside), tuple(rounds.times.outside))
        found = problems(clocks, 1e-8, max(conversations(rounds.reference_times)))
    finally:
        session.close()
    assert found


def conversations(times: Times) -> tuple[float, ...]:
    return Clocks(tuple(times.inside), tuple(times.outside)).around


def test_any_timed_round_can_be_the_one_that_is_judged(session: Session) -> None:
    """Over 12 runs of 6 rounds every round but few is kept at least once, none of the warm-up."""
    kept = set()
    for _ in range(12):
        _, rounds = finished(session, "softmax", "rows:8x64")
        kept |= {number for number, _ in rounds.kept}
    assert 0 not in kept
    assert len(kept) >= 4


def test_rows_are_drawn_inside_the_shape() -> None:
    for label in ("prefill:2x3x5x4", "decode:2x3x50x4", "rows:3x9"):
        shape = Shape.parse(label)
        for _ in range(20):
            place = sampled.draw(shape)
            count = shape.axes.n_q if shape.axes else (shape.rows or (0,))[0]
            assert place.rows
            assert max(place.rows) < count
