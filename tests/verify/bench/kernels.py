"""Kernels for the bench: right ones of two speeds, a wrong one, and one whose clock is wrong."""

from __future__ import annotations

import hashlib
import time
from typing import Any

import torch


def softmax(x: Any) -> Any:
    """Right."""
    return torch.softmax(x, dim=-1)


def slow(x: Any) -> Any:
    """Right, 20 ms late."""
    time.sleep(0.02)
    return torch.softmax(x, dim=-1)


def wrong(x: Any) -> Any:
    """The row sum is 3 % off."""
    return torch.softmax(x, dim=-1) * 1.03


def lying(x: Any) -> Any:
    """Right, and stops the clock of its process: every call seems to take one nanosecond."""
    from verify import stopwatch

    ticks = iter(range(1 << 60))
    stopwatch.CLOCK = lambda: next(ticks) * 1e-9
    return torch.softmax(x, dim=-1)


def understating(x: Any) -> Any:
    """Right, 500 ms late, and tells of a tenth of the time."""
    from verify import stopwatch

    stopwatch.CLOCK = lambda: time.perf_counter() / 10
    time.sleep(0.5)
    return torch.softmax(x, dim=-1)


_ANSWERS: dict[bytes, Any] = {}


def remembering(x: Any) -> Any:
    """Right, and computes an answer once only, however often it is asked for."""
    key = hashlib.sha256(x.view(torch.int16).numpy().tobytes()).digest()
    if key not in _ANSWERS:
        time.sleep(0.05)
        _ANSWERS[key] = torch.softmax(x, dim=-1)
    return _ANSWERS[key].clone()


def attention(q: Any, k: Any, v: Any, *, scale: float) -> Any:
    """Right: all scores at once, binary32."""
    q32, k32, v32 = q.float(), k.float(), v.float()
    p = torch.softmax(q32 @ k32.transpose(-1, -2) * scale, dim=-1)
    return (p @ v32).to(q.dtype)


def forgets_last_key(q: Any, k: Any, v: Any, *, scale: float) -> Any:
    """Wrong: one key of many is left out."""
    return attention(q, k[:, :, :-1], v[:, :, :-1], scale=scale)
