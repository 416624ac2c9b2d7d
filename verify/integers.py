"""Integer draws: numbers for families that have the same bits on every machine and version.

SplitMix64 over a counter (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
2014), keyed by a text.  Only integer operations and exact scalings by powers of two are used, so
no library's random generator, and no rounding mode, can change an input.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)


class Draws:
    """A stream of integers that depends on `key` alone."""

    def __init__(self, key: str) -> None:
        self._state = np.uint64(int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little"))
        self._count = 0

    def words(self, shape: tuple[int, ...]) -> NDArray[np.uint64]:
        """Uniform 64-bit words."""
        size = int(np.prod(shape, dtype=np.int64))
        with np.errstate(over="ignore"):
            counter = np.arange(self._count + 1, self._count + size + 1, dtype=np.uint64)
            z = self._state + counter * _GAMMA
            z = (z ^ (z >> np.uint64(30))) * _MIX1
            z = (z ^ (z >> np.uint64(27))) * _MIX2
            z = z ^ (z >> np.uint64(31))
        self._count += size
        return z.reshape(shape)

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Integers in [low, high) (high - low <= 2^31; the bias is below 2^-33)."""
        top = self.words(shape) >> np.uint64(32)
        return (top * np.uint64(high - low) >> np.uint64(32)).astype(np.int64) + low

    def signs(self, shape: tuple[int, ...]) -> Array:
        """+1.0 and -1.0 with equal probability."""
        return np.asarray(1.0 - 2.0 * self.integers(0, 2, shape), np.float64)

    def uniform(self, shape: tuple[int, ...]) -> Array:
        """Multiples of 2^-30 in [0, 1), exact in float64."""
        return np.asarray(self.integers(0, 2**30, shape) * 2.0**-30, np.float64)

    def normal(self, shape: tuple[int, ...]) -> Array:
        """Twelve 16-bit uniforms added: mean 0, variance 1 to 2^-32, |x| < 6; exact."""
        words = self.words((*shape, 3))
        parts = [(words >> np.uint64(16 * i)) & np.uint64(0xFFFF) for i in range(4)]
        total = sum(part.sum(axis=-1).astype(np.int64) for part in parts)
        return np.asarray((2 * total - 12 * 65535) * 2.0**-17, np.float64)
