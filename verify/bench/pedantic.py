"""Pedantic: one item timed by pytest-benchmark, in pairs with the reference."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

import pytest

from verify.bench.integrity import remembers
from verify.bench.rounds import REPEATED_BELOW
from verify.certificate import exit_status
from verify.errors import AttncertError, IntegrityError
from verify.timings import EXTRA

if TYPE_CHECKING:
    from verify.bench.session import Item, Session
    from verify.bench.timing import Timing

_elapsed = 0.0


def kernel_clock() -> float:
    """Seconds that kernels have spent in calls so far, by their workers' clocks.

    pytest-benchmark reads it before and after a round, and so gets the call without the
    conversation around it.
    """
    return _elapsed


def time_with(benchmark: Any, session: Session, item: Item) -> None:
    """Time an item; the test fails where an output is refuted or a time cannot be true."""
    __tracebackhide__ = True
    share = session.share(item)
    if isinstance(share, str):
        pytest.skip(share)
    try:
        timing = _timed(benchmark, session, item, share)
    except AttncertError as error:
        session.statuses.add(error.exit_status)
        pytest.fail(f"{type(error).__name__}  {item.id}: {error}", pytrace=False)
    benchmark.extra_info[EXTRA] = {
        "kernel": item.kernel,
        "operation": session.kernels[item.kernel].operation,
        "format": item.format.name,
        "device": session.ask.request.device,
        "timing": timing.to_json(),
    }
    session.timings.append((item, timing))
    _require(item, timing, session)


def _timed(benchmark: Any, session: Session, item: Item, share: float) -> Timing:
    rounds = session.rounds(item)
    assert session.roofline
    busy = session.busy()
    pair = rounds.warm_up()
    count = session.count(pair, share)

    def setup() -> None:
        rounds.before()

    def call() -> None:
        global _elapsed
        _elapsed += rounds.call()

    def teardown() -> None:
        rounds.after()

    benchmark.pedantic(call, setup=setup, teardown=teardown, rounds=count)
    if benchmark.disabled:  # pytest-benchmark then calls once and forgets the teardown
        teardown()
    if statistics.median(rounds.times.inside) <= REPEATED_BELOW:
        rounds.repeat()
        if remembers(rounds.repeats):
            rounds.repeat()
            rounds.repeat()
    return session.timing(item, rounds, busy)


def _require(item: Item, timing: Timing, session: Session) -> None:
    __tracebackhide__ = True
    from verify.judge import Verdict
    from verify.terminal import described

    if timing.problems:
        session.statuses.add(IntegrityError.exit_status)
        pytest.fail(f"INTEGRITY  {item.id}: " + "; ".join(timing.problems), pytrace=False)
    for record in session.records[item.id]:
        if record.verdict not in (Verdict.PASS, Verdict.OUT_OF_SCOPE):
            session.statuses.add(exit_status(record.verdict, (record,)))
            pytest.fail(described(record, item.id), pytrace=False)
