"""Declares determinism, but visits the tiles in another order each time.

Shows       two equal calls; each result is within its bound.
Report      https://github.com/Dao-AILab/flash-attention/issues/2244, /1570.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from verify.controls._control import control, honest
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online


@dataclass(frozen=True)
class Nondeterministic(Online):
    """The first tile moves on by one in each call, as with racing blocks."""

    calls: Iterator[int] = field(default_factory=count)

    def tiles(self, call: Call) -> Iterator[slice]:
        order = list(super().tiles(call))
        start = next(self.calls) % max(len(order), 1)
        return iter(order[start:] + order[:start])


@control("nondeterministic", "declares determinism, and does not have it")
def nondeterministic(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(Nondeterministic(block=block))
