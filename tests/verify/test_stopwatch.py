"""The stopwatch: what it measures on a CPU, and that it synchronises with a device."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

from verify import stopwatch
from verify.stopwatch import timed


def test_a_call_on_a_cpu_takes_as_long_as_it_takes() -> None:
    result, reading = timed(lambda: [time.sleep(0.05)], "cpu")  # type: ignore[func-returns-value]
    assert result == [None]
    assert 0.05 <= reading.seconds < 5
    assert reading.device_seconds is None
    assert reading.peak_bytes is None


@pytest.mark.skipif(not stopwatch._CLEAR.exists(), reason="no /proc/self/clear_refs here")
def test_memory_that_a_call_needs_is_seen_though_it_is_freed() -> None:
    """64 MiB written and freed inside the call; a call that needs none shows next to none."""
    needed = 2**26
    _, much = timed(lambda: torch.ones(needed, dtype=torch.uint8).sum(), "cpu", peak=True)
    _, little = timed(lambda: None, "cpu", peak=True)
    if much.peak_bytes is None or little.peak_bytes is None:
        pytest.skip("this system does not forget the peak of a process")
    assert much.peak_bytes > 0.9 * needed
    assert little.peak_bytes < 0.1 * needed


class FakeDevice:
    """A device whose work is done a while after the call returned, as on CUDA."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        for name, value in {
            "Event": self.event,
            "synchronize": self.synchronise,
            "reset_peak_memory_stats": lambda: None,
            "memory_allocated": lambda: 100,
            "max_memory_allocated": lambda: 164,
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)

    def synchronise(self) -> None:
        self.log.append("synchronise")
        if "call" in self.log:
            time.sleep(0.05)

    def event(self, enable_timing: bool) -> Any:
        assert enable_timing
        log = self.log

        class Event:
            def record(self) -> None:
                log.append("event")

            def elapsed_time(self, other: Any) -> float:
                return 50.0  # milliseconds

        return Event()


def test_on_a_device_the_clock_runs_from_synchronised_to_synchronised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Work that is still under way when the call returns is part of its time."""
    device = FakeDevice(monkeypatch)
    _, reading = timed(lambda: device.log.append("call"), "cuda", peak=True)
    assert device.log == ["synchronise", "event", "call", "event", "synchronise"]
    assert reading.seconds >= 0.05
    assert reading.device_seconds == pytest.approx(0.05)
    assert reading.peak_bytes == 64
