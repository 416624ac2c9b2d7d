"""Cheats that reach for the harness around them: its modules, its frames, its objects.

Caught by   truth, bound and verdict live in another process: nothing that is patched here is read
            there, and nothing that is found here is the answer.
"""

from __future__ import annotations

import gc
import importlib
import sys
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from verify.controls._control import cheat


@cheat("patched-harness", "replaces judge, bounds and pipeline in its process, and returns zeros")
def patched_harness(x: Tensor) -> Tensor:
    """Every error is 0, every bound is infinite, every verdict is PASS."""

    def agree(*_: Any, **__: Any) -> Any:
        return "PASS"

    patches = {
        "verify.judge": ("judge", "worst", "_verdict"),
        "verify.metrics": ("error_interval", "measure"),
        "verify.bounds": ("bound",),
        "verify.pipeline": ("examine", "decide", "bound_of"),
    }
    for module, names in patches.items():
        for name in names:
            setattr(importlib.import_module(module), name, agree)
    return torch.zeros_like(x)


@cheat("walks-frames", "looks for an answer in the frames and objects around it")
def walks_frames(x: Tensor) -> Tensor:
    """Returns any other tensor of the right shape and format, else zeros."""
    frame: FrameType | None = sys._getframe()
    around: list[Any] = []
    while frame is not None:
        around += list(frame.f_locals.values())
        frame = frame.f_back
    for found in [*around, *gc.get_objects()]:
        if type(found) is not Tensor or (found.shape, found.dtype) != (x.shape, x.dtype):
            continue
        if found.data_ptr() != x.data_ptr():
            return found.clone()
    return torch.zeros_like(x)
