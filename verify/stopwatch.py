"""Stopwatch: the time of one call, and the memory that it needs, measured inside the worker.

On a CUDA device the clock starts and stops at a synchronised device, and CUDA events are recorded
around the call as well; whoever asked compares the two.  The clock is bound when this module is
imported, before any kernel could patch it; a kernel that reaches into this process can still lie,
which is why the parent keeps a clock of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CLOCK = time.perf_counter
_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Reading:
    """What was measured around one call.

    seconds         by the worker's wall clock, synchronised with the device at both ends
    device_seconds  by CUDA events on the current stream; None on a CPU
    peak_bytes      by how much the memory in use rose at most; None where it was not asked for or
                    cannot be measured
    """

    seconds: float
    device_seconds: float | None = None
    peak_bytes: int | None = None


def timed(call: Callable[[], Any], device: str, peak: bool = False) -> tuple[Any, Reading]:
    """The result of a call, and the reading; `peak` measures memory too (and disturbs the time)."""
    if device == "cpu":
        return _on_cpu(call, peak)
    return _on_cuda(call, peak)


def _on_cpu(call: Callable[[], Any], peak: bool) -> tuple[Any, Reading]:
    before = _reset_peak() if peak else None
    started = CLOCK()
    result = call()
    seconds = CLOCK() - started
    rise = None if before is None else max(_status("VmHWM") - before, 0)
    return result, Reading(seconds, None, rise)


def _on_cuda(call: Callable[[], Any], peak: bool) -> tuple[Any, Reading]:
    import torch

    event: Any = torch.cuda.Event
    first, last = event(enable_timing=True), event(enable_timing=True)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    started = CLOCK()
    first.record()
    result = call()
    last.record()
    torch.cuda.synchronize()
    seconds = CLOCK() - started
    rise = torch.cuda.max_memory_allocated() - before if peak else None
    return result, Reading(seconds, first.elapsed_time(last) * 1e-3, rise)


def _reset_peak() -> int | None:
    """Give freed memory back and forget the peak so far; the bytes now resident, or None.

    Linux keeps the peak resident size of a process until it is told to forget it (proc(5)).
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)  # glibc only; elsewhere freed memory may hide a peak
    try:
        _CLEAR.write_text("5")
        return _status("VmRSS")
    except (OSError, ValueError, IndexError):
        return None


def _status(field: str) -> int:
    """A field of /proc/self/status, in bytes."""
    lines = _STATUS.read_text().splitlines()
    line = next(line for line in lines if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024
