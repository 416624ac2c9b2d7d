"""Memory of a thread that its blocks of rows use again."""

from __future__ import annotations

import math
import threading

import numpy as np

from references.enclosure import Array


class _Scratch(threading.local):
    """Memory that the blocks of a thread reuse: fresh pages would cost as much as the work."""

    def __init__(self) -> None:
        self._memory: dict[str, Array] = {}
        self._views: dict[tuple[str | int, ...], Array] = {}

    def __call__(self, *key: str | int) -> Array:
        """The array of that name and shape; the same memory for every shape of a name."""
        view = self._views.get(key)
        return self._view(*key) if view is None else view

    def _view(self, name: str | int, *shape: str | int) -> Array:
        sizes = tuple(int(length) for length in shape)
        memory = self._memory.get(str(name))
        if memory is None or memory.size < math.prod(sizes):
            # Arrays that are a multiple of 4 KiB apart would take each other's place in the cache.
            apart = 8 * (5 * len(self._memory) % 64)
            memory = self._memory[str(name)] = np.empty(math.prod(sizes) + apart)[apart:]
            self._views = {key: view for key, view in self._views.items() if key[0] != name}
        view = self._views[(name, *shape)] = memory[: math.prod(sizes)].reshape(sizes)
        return view

    def clear(self) -> None:
        self._memory.clear()
        self._views.clear()


scratch = _Scratch()
