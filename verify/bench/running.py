"""Running: the bench through pytest and pytest-benchmark, with our exit statuses."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from pytest_benchmark.session import PerformanceRegression

from verify.bench.asking import SESSION, opened
from verify.bench.session import Ask, Session
from verify.errors import InconclusiveError, UsageError
from verify.timings import SUFFIX

PERFORMANCE = 6
FILE = f"throughput{SUFFIX}"
# What a user sees of pytest: no header, no cache, no project's options; pytest-benchmark's table.
QUIET = ("-q", "--no-header", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", ".")
WARNINGS = ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # the plugin is imported already
COLUMNS = "--benchmark-columns=min,median,iqr,rounds"
_ORDER = (3, 1, 5, 4, PERFORMANCE)


class Handed:
    """The plugin that hands a session over to pytest."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def pytest_configure(self, config: pytest.Config) -> None:
        config.stash[SESSION] = self.session


def bench(ask: Ask, file: Path, more: Sequence[str] = ()) -> tuple[int, Session]:
    """Time what is asked for; write pytest-benchmark's JSON to `file`.

    more        further options of pytest, such as --benchmark-compare
    Returns     the exit status, and the session with its timings.
    Raises      AttncertError for what cannot be asked for, before anything is timed.
    """
    session = opened(ask)
    try:
        items = session.plan()
        if not items:
            reasons = "; ".join(f"{k} {label}: {why}" for k, label, why in session.skipped)
            raise InconclusiveError(f"nothing to time: {reasons}")
        with session.blas():
            return _run(session, file, more), session
    finally:
        session.close()


def _run(session: Session, file: Path, more: Sequence[str]) -> int:
    arguments = ["--pyargs", "verify.bench.suite", *QUIET, *WARNINGS, COLUMNS]
    arguments += [f"--benchmark-json={file}", *_plugin(), *more]
    regressed = False
    try:
        code = pytest.main(arguments, plugins=[Handed(session)])
    except PerformanceRegression:
        code, regressed = pytest.ExitCode.OK, True
    if code == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if code == pytest.ExitCode.USAGE_ERROR:
        raise UsageError(f"pytest does not take the options {' '.join(more)}")
    if code == pytest.ExitCode.INTERNAL_ERROR:
        raise RuntimeError("pytest failed inside; its output says how")
    if code == pytest.ExitCode.TESTS_FAILED and not session.statuses:
        raise RuntimeError("a timing failed for no reason that we know; its output says how")
    statuses = session.statuses | ({PERFORMANCE} if regressed else set())
    if not session.timings:
        statuses.add(InconclusiveError.exit_status)
    return next((s for s in _ORDER if s in statuses), max(statuses, default=0))


def _plugin() -> tuple[str, ...]:
    """The option that loads our plugin where attncert is not installed."""
    from importlib.metadata import entry_points

    loaded = any(e.value == "verify.pytest_plugin" for e in entry_points(group="pytest11"))
    return () if loaded else ("-p", "verify.pytest_plugin")
