"""Cheats with the form of the answer: wildcards, forged shapes, late or lazy results.

Caught by   shape, format and count before any arithmetic; the pattern of NaN; exact base type;
            bytes copied at once, in another process than the truth.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import torch
from torch import Tensor

from verify.controls._control import cheat


@cheat("nan-everywhere", "NaN, which no comparison with `>` finds too large")
def nan_everywhere(x: Tensor) -> Tensor:
    """`error > bound` is False."""
    return torch.full_like(x, float("nan"))


@cheat("empty-output", "a tensor without elements, of which all are right")
def empty_output(x: Tensor) -> Tensor:
    """`all` of nothing is True."""
    return x.new_empty(0)


@cheat("broadcast-shape", "one column, which would broadcast against any truth")
def broadcast_shape(x: Tensor) -> Tensor:
    """The shape is (rows, 1)."""
    return torch.softmax(x, dim=-1)[..., :1].clone()


@cheat("wider-format", "returns binary64 where the input format is declared")
def wider_format(x: Tensor) -> Tensor:
    """More accurate than anybody may be."""
    return torch.softmax(x.double(), dim=-1)


class Agreeing(Tensor):
    """Compares equal to everything."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.equal, torch.allclose):
            return True
        return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]


@cheat("agreeing-subclass", "a tensor subclass that compares equal to everything")
def agreeing_subclass(x: Tensor) -> Tensor:
    """The values are zeros."""
    return torch.zeros_like(x).as_subclass(Agreeing)


@cheat("late-writer", "returns at once; a thread writes the answer later")
def late_writer(x: Tensor) -> Tensor:
    """The clock stops before the work is done."""
    out, y = torch.zeros_like(x), x.clone()

    def work() -> None:
        time.sleep(0.05)
        out.copy_(torch.softmax(y, dim=-1))

    threading.Thread(target=work, daemon=True).start()
    return out


@cheat("patched-torch", "patches torch.equal, torch.allclose and the clock, and returns zeros")
def patched_torch(x: Tensor) -> Tensor:
    """Truth, verdict and timer live in another process, where nothing is patched."""

    def agree(*_: Any, **__: Any) -> bool:
        return True

    torch.equal = torch.allclose = agree
    time.perf_counter = lambda: 0.0
    return torch.zeros_like(x)
