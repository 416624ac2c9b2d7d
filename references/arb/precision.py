"""Arb's working precision: one global number, borrowed under a lock and given back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from flint import ctx

FIRST_BITS = 160
LAST_BITS = 4096
TARGET_BITS = 100

_LOCK = threading.RLock()


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Arb at `bits` bits.  Another precision would still give true balls, wider or narrower."""
    with _LOCK:
        previous = ctx.prec
        ctx.prec = bits
        try:
            yield
        finally:
            ctx.prec = previous


def ladder(first_bits: int, extra_bits: int) -> Iterator[int]:
    """Precisions to try: first_bits + extra_bits, doubled up to 4096 (at least one is tried)."""
    bits = first_bits + extra_bits
    yield bits
    while 2 * bits <= LAST_BITS:
        bits *= 2
        yield bits
