"""One attention call as rows: checked arguments, exact dot products, scores, weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from references.enclosure import Array
from references.exact.integers import IntegerArray, Scaled, scaled_integers
from references.exact.keys import Sight, visible_keys
from references.exact.precision import Context, Real

# The binary exponent of a score of 0, below that of anything that float64 inputs can produce.
_NO_EXPONENT = -(2**20)


@dataclass(frozen=True)
class Call:
    """The arguments, checked, with masks and biases in their full shape."""

    q: Array
    k: Array
    v: Array
    scale: float | None
    causal: bool
    corner: str
    window: tuple[int, int] | None
    mask: NDArray[np.bool_] | None
    bias: Array | None
    softcap: float | None
    sinks: Array | None
    extra_bits: int

    def __post_init__(self) -> None:
        (batch, heads, _, d), (_, kv_heads, n_k, _) = self.q.shape, self.k.shape
        if self.k.shape != (batch, kv_heads, n_k, d) or self.v.shape[:3] != self.k.shape[:3]:
            raise ValueError(f"shapes differ: q {self.q.shape}, k {self.k.shape}, v {self.v.shape}")
        if kv_heads == 0 or heads % kv_heads:
            raise ValueError(f"{heads} heads are no multiple of {kv_heads} kv_heads")
        if self.sinks is not None and self.sinks.shape != (heads,):
            raise ValueError(f"sinks has shape {self.sinks.shape}: use (heads,) = ({heads},)")
        if self.scale is not None and not math.isfinite(self.scale):
            raise ValueError(f"scale is {self.scale}: use a finite number")
        if self.softcap is not None and not 0 < self.softcap < math.inf:
            raise ValueError(f"softcap is {self.softcap}: use a finite number above 0")

    def tau(self, mp: Context) -> Real:
        """The scale, up to 2 eps."""
        return 1 / mp.sqrt(self.q.shape[3]) if self.scale is None else mp.mpf(self.scale)

    def head(self, b: int, h: int, queries: list[int]) -> Head:
        """One head with its integers; only the query rows asked for."""
        kv = h // (self.q.shape[1] // self.k.shape[1])
        full = (self.q.shape[0], self.q.shape[1], self.q.shape[2], self.k.shape[2])
        q, k, v = self.q[b, h][queries], self.k[b, kv], self.v[b, kv]
        left, right, values = scaled_integers(q), scaled_integers(k), scaled_integers(v)
        dots = Scaled(left.integers @ right.integers.T, left.exponent + right.exponent)
        ones = np.full((v.shape[0], 1), 1, dtype=object)
        columns = np.hstack([values.integers, np.abs(values.integers), ones])
        return Head(
            call=self,
            sight=Sight(full[2], full[3], self.causal, self.corner, self.window),
            q=q,
            k=k,
            v=v,
            dots=dots,
            columns=columns,
            value_exponent=values.exponent,
            regular=all_finite(q) and all_finite(k),
            mask=None if self.mask is None else np.broadcast_to(self.mask, full)[b, h],
            bias=None if self.bias is None else np.broadcast_to(self.bias, full)[b, h],
            sink=None if self.sinks is None else float(self.sinks[h]),
        )


@dataclass(frozen=True)
class Head:
    """What the rows of one head share."""

    call: Call
    sight: Sight
    q: Array  # (rows asked for, d)
    k: Array
    v: Array
    dots: Scaled  # (rows asked for, n_k), y exactly
    columns: IntegerArray  # (n_k, 2 d_v + 1): v, |v|, 1
    value_exponent: int
    regular: bool  # every q and k is finite
    mask: NDArray[np.bool_] | None
    bias: Array | None
    sink: float | None

    def bias_row(self, i: int) -> list[float]:
        return [0.0] * self.sight.n_k if self.bias is None else self.bias[i].tolist()

    def keys(self, i: int) -> list[int]:
        n_k = self.sight.n_k
        allowed = [True] * n_k if self.mask is None else self.mask[i].tolist()
        return visible_keys(self.sight, i, allowed, self.bias_row(i))


@dataclass(frozen=True)
class Weights:
    """The weights e_j of the keys that count, their shift and how large scores may be."""

    weights: dict[int, Real]
    sink: Real  # the sink's weight, 0 without one
    shift: Real
    size: float  # S of the proof, rounded up
    terms: int


def score_exponent(head: Head, place: int, keys: list[int], bias: list[float]) -> int:
    """An e with S < 2^e (see `precision`), from the lengths of the integers."""
    scale, softcap = head.call.scale, head.call.softcap
    bits = max((head.dots.integers[place, j].bit_length() for j in keys), default=0)
    product = _exponent(1.0 if scale is None else scale)
    score = _NO_EXPONENT if not bits else bits + head.dots.exponent + product
    if softcap is not None:
        # a score of +-inf is capped to +-softcap, whatever its integers (zeroed) say
        score = min(score, _exponent(softcap)) if head.regular else _exponent(softcap)
    finite = [abs(bias[j]) for j in keys if math.isfinite(bias[j])]
    largest = max(finite, default=0.0)
    sink = 0.0 if head.sink is None or not math.isfinite(head.sink) else head.sink
    return max(score + 1, _exponent(largest) + 1, _exponent(sink))


def all_finite(x: Array) -> bool:
    return bool(np.isfinite(x).all())


def _exponent(x: float) -> int:
    return math.frexp(x)[1] if x else _NO_EXPONENT


def row_scores(
    mp: Context, head: Head, place: int, keys: list[int], bias: list[float]
) -> dict[int, Real]:
    """The scores of the visible keys; mpmath's infinities follow the extended real numbers."""
    call, q = head.call, head.q[place]
    scale = call.tau(mp)
    softcap = None if call.softcap is None else mp.mpf(call.softcap)
    scores = {}
    for j in keys:
        if head.regular or (all_finite(q) and all_finite(head.k[j])):
            y = mp.mpf((head.dots.integers[place, j], head.dots.exponent))
        else:
            y = mp.fdot(q.tolist(), head.k[j].tolist())
        t = scale * y
        s = t if softcap is None else softcap * mp.tanh(t / softcap)
        scores[j] = s + bias[j] if bias[j] else s
    return scores


def exponentials(mp: Context, scores: dict[int, Real], sink: float | None, size: float) -> Weights:
    finite = {j: s for j, s in scores.items() if s != mp.ninf}
    live_sink = sink is not None and sink != -math.inf
    shift = max([*finite.values(), *([mp.mpf(sink)] if live_sink else [])])
    shifted = {j: s - shift for j, s in finite.items()}
    exponentials = {z: mp.exp(z) for z in set(shifted.values())}  # ties are common in hard rows
    return Weights(
        weights={j: exponentials[z] for j, z in shifted.items()},
        sink=mp.exp(mp.mpf(sink) - shift) if live_sink else mp.zero,
        shift=shift,
        size=size,
        terms=len(finite) + live_sink,
    )


def size_of(exponent: int) -> float:
    """2^exponent as a float, rounded up; 0 only if every score is exactly 0."""
    if exponent <= _NO_EXPONENT + 1:
        return 0.0
    return math.ldexp(1.0, min(max(exponent, -1074), 1023))


def row_slopes(mp: Context, head: Head, place: int, keys: list[int]) -> list[Real]:
    """dt/d(tau y) = 1 - tanh(tau y / softcap)^2 of these keys, q and k being finite; 1 without."""
    if head.call.softcap is None:
        return [mp.one] * len(keys)
    scale, softcap = head.call.tau(mp), mp.mpf(head.call.softcap)
    dots = [mp.mpf((head.dots.integers[place, j], head.dots.exponent)) for j in keys]
    return [1 - mp.tanh(scale * y / softcap) ** 2 for y in dots]
