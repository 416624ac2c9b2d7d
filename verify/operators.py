"""Operators: which of torch's own operators a call uses, in Python and below it.

Two modes of torch watch: one sees calls of functions by module and name (`torch.softmax`), the
other what reaches the dispatcher (`aten::_softmax`), from Python or C++.  Not seen: a library's
code that is called past torch, as by ctypes, and kernels that are launched directly.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


class _Functions(TorchFunctionMode):
    def __init__(self, seen: set[str]) -> None:
        super().__init__()
        self.seen = seen

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.seen.add(f"{getattr(func, '__module__', None)}.{getattr(func, '__name__', '?')}")
        return func(*args, **(kwargs or {}))


class _Dispatched(TorchDispatchMode):
    def __init__(self, seen: set[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen = seen

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.seen.add(func.name())
        return func(*args, **(kwargs or {}))


@contextmanager
def watched() -> Iterator[set[str]]:
    """The names of the operators that are called while it lasts."""
    seen: set[str] = set()
    with _Functions(seen), _Dispatched(seen):
        yield seen


def prepare() -> None:
    """Watch one call: the first loads torch's compiler, for which no kernel should pay."""
    with watched():
        torch.zeros(1) + 1
