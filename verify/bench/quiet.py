"""Quiet: whether anything else runs on this machine, and that no two benches do."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

SAMPLE_SECONDS = 0.2
QUIET_CORES = 0.25  # others that keep less than this many cores busy count as silence
_STAT = Path("/proc/stat")


@contextlib.contextmanager
def alone(seconds: float) -> Iterator[bool]:
    """Hold the lock that every bench of this user takes; False where it did not come in time.

    Without it the bench runs beside another, which its timings then say.
    """
    path = Path(tempfile.gettempdir()) / f"attncert-bench-{os.getuid()}.lock"
    with path.open("a") as file:
        held = _locked(file.fileno(), time.monotonic() + seconds)
        try:
            yield held
        finally:
            if held:
                fcntl.flock(file, fcntl.LOCK_UN)


def _locked(descriptor: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.1)


def busy_cores(seconds: float = SAMPLE_SECONDS) -> float | None:
    """Cores that all processes kept busy while we slept; None where Linux's /proc/stat is missing.

    Time stolen by other virtual machines counts: it is as lost as any.
    """
    before = _counters()
    started = time.perf_counter()
    time.sleep(seconds)
    after = _counters()
    if before is None or after is None:
        return None
    return (after - before) / os.sysconf("SC_CLK_TCK") / (time.perf_counter() - started)


def _counters() -> float | None:
    """Ticks spent by all cores on anything but idling (user, nice, system, irq, softirq, steal)."""
    try:
        fields = [int(f) for f in _STAT.read_text().splitlines()[0].split()[1:9]]
    except (OSError, ValueError, IndexError):
        return None
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields
    return float(user + nice + system + irq + softirq + steal)


def wait_for_quiet(seconds: float) -> float | None:
    """Wait until the machine is quiet, at most so long; the busy cores that were found last."""
    deadline = time.monotonic() + seconds
    while True:
        found = busy_cores()
        if found is None or found < QUIET_CORES or time.monotonic() >= deadline:
            return found
        time.sleep(0.5)
