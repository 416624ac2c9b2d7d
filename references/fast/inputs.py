"""Arguments of an attention call: checked, and sorted into rows that the fast tier takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from references.enclosure import Array
from references.fast.compiled import Indices, kernel

Booleans = NDArray[np.bool_]
SCALES = (2.0**-200, 2.0**200)  # no product of a score with it, or error term, leaves float64
SOFTCAPS = (2.0**-100, 2.0**100)
FLOOR = 2.0**-1072  # of any radius that is asked for: Arb's results end at 2^-1073
MOST_KEYS, MOST_FEATURES = 2**24, 2**18


@kernel("i8(f8[::1])")
def _first_wide(x: Array) -> int:
    """The place of the first value that binary32 lacks; -1: none; -2: none, but not all finite."""
    wide = 0
    finite = 0
    for i in range(x.size):
        same = np.float64(np.float32(x[i])) == x[i]
        wide += not same and x[i] == x[i]
        finite += abs(x[i]) < np.inf
    if wide == 0:
        return -1 if finite == x.size else -2
    for i in range(x.size):
        if np.float64(np.float32(x[i])) != x[i] and x[i] == x[i]:
            return i
    return -1


class Tensor(NamedTuple):
    """A float64 array that holds binary32 values; `finite`: all of them are numbers."""

    values: Array
    finite: bool


def require_binary32(name: str, x: Array) -> Tensor:
    """x, contiguous, if binary32 holds its values.

    Raises      ValueError naming the first value that does not fit.
    """
    x = np.ascontiguousarray(x, dtype=np.float64)
    place = _first_wide(x.reshape(-1))
    if place >= 0:
        wrong = float(x.reshape(-1)[place])
        raise ValueError(
            f"{name} holds {wrong!r} ({wrong.hex()}), which binary32 does not: use references.exact"
        )
    return Tensor(x, place == -1)


def require_radius(radius: float) -> float:
    """A radius that can be asked for: at most 2^-40 of the size.

    Raises      ValueError.
    """
    if not 0.0 < radius <= 2.0**-40:
        raise ValueError(f"radius is {radius}: use a number above 0, at most 2^-40")
    return float(radius)


def extra_bits(request: float) -> int:
    """What Arb must add to its 100 bits so that the radius is below the request."""
    return max(0, int(np.ceil(-np.log2(request))) - 98)


@dataclass(frozen=True)
class Call:
    """The arguments of `references.fast.attention`, checked."""

    q: Array
    k: Array
    v: Array
    finite: tuple[bool, bool, bool]  # all of q, k, v
    scale: float | None
    causal: bool
    corner: str
    window: tuple[int, int] | None
    mask: Booleans | None
    bias: Array | None
    softcap: float | None
    sinks: Array | None

    def __post_init__(self) -> None:
        (batch, heads, _, d), (_, kv_heads, _, _) = self.q.shape, self.k.shape
        if self.k.shape[0] != batch or self.k.shape[3] != d or self.v.shape[:3] != self.k.shape[:3]:
            raise ValueError(f"shapes differ: q {self.q.shape}, k {self.k.shape}, v {self.v.shape}")
        if kv_heads == 0 or heads % kv_heads:
            raise ValueError(f"{heads} heads are no multiple of {kv_heads} kv_heads")
        if self.corner not in ("bottom-right", "top-left"):
            raise ValueError(f"corner is {self.corner!r}: use 'bottom-right' or 'top-left'")
        if self.window is not None and min(self.window) < -1:
            raise ValueError(f"window is {self.window}: each side is -1 (no limit) or a count >= 0")
        if self.scale is not None and not np.isfinite(self.scale):
            raise ValueError(f"scale is {self.scale}: use a finite number")
        if self.softcap is not None and not 0 < self.softcap < np.inf:
            raise ValueError(f"softcap is {self.softcap}: use a finite number above 0")
        if self.sinks is not None and self.sinks.shape != (heads,):
            raise ValueError(f"sinks has shape {self.sinks.shape}: use (heads,) = ({heads},)")

    @property
    def group(self) -> int:
        """Query heads per kv head."""
        return int(self.q.shape[1] // self.k.shape[1])

    @property
    def inside(self) -> bool:
        """Whether sizes, scale and softcap are in the domain of the proof."""
        scale = 1.0 if self.scale is None else abs(self.scale)
        softcap = 1.0 if self.softcap is None else self.softcap
        return (
            0 < self.k.shape[2] <= MOST_KEYS
            and 0 < self.k.shape[3] <= MOST_FEATURES
            and (scale == 0.0 or SCALES[0] <= scale <= SCALES[1])
            and SOFTCAPS[0] <= softcap <= SOFTCAPS[1]
        )

    @property
    def free(self) -> bool:
        """Whether neither causal nor a window hides a key."""
        return not self.causal and self.window is None

    def sight(self) -> tuple[Indices, Indices]:
        """(n_q,) each: the first key that causal and window leave to a query, and their end."""
        n_q, n_k = self.q.shape[2], self.k.shape[2]
        if self.free:
            return np.zeros(n_q, np.int64), np.full(n_q, n_k)
        place = np.arange(n_q) + (0 if self.corner == "top-left" else n_k - n_q)
        left, right = self.window if self.window is not None else (-1, -1)
        last = np.minimum(place, n_k - 1) if self.causal else np.full(n_q, n_k - 1)
        if right >= 0:
            last = np.minimum(last, place + right)
        first = np.maximum(place - left, 0) if left >= 0 else np.zeros(n_q, np.int64)
        stop = np.maximum(last + 1, 0)
        return np.minimum(first, stop), stop

    def full(self, x: NDArray[np.generic]) -> NDArray[np.generic]:
        """A mask or bias in its full shape, without a copy."""
        return np.broadcast_to(x, (*self.q.shape[:3], self.k.shape[2]))
