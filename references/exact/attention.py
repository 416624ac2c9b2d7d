"""Attention in arbitrary precision, one query row at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from references.enclosure import (
    FINITE,
    NAN,
    NEGATIVE_INFINITY,
    POSITIVE_INFINITY,
    Array,
    AttentionTruth,
)
from references.exact.integers import IntegerArray, Scaled, scaled_integers, weighted_sums
from references.exact.keys import Sight, visible_keys
from references.exact.precision import TARGET_BITS, Context, Real, working_bits, working_precision
from references.exact.words import put, put_special, unknown, up, upper

Triple = tuple[int, int, int]  # batch, head, query

# The binary exponent of a score of 0, below that of anything that float64 inputs can produce.
_NO_EXPONENT = -(2**20)


def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    scale: float | None = None,
    causal: bool = False,
    corner: str = "bottom-right",
    window: tuple[int, int] | None = None,
    mask: NDArray[np.bool_] | None = None,
    bias: Array | None = None,
    softcap: float | None = None,
    sinks: Array | None = None,
    rows: Iterable[Triple] | None = None,
    extra_bits: int = 0,
) -> AttentionTruth:
    """
    Attention as `references` defines it.

    Shapes      q: (batch, heads, n_q, d); k: (batch, kv_heads, n_k, d); v: (batch, kv_heads,
                n_k, d_v); mask, bias: broadcastable to (batch, heads, n_q, n_k); sinks: (heads,).
                Returns output (batch, heads, n_q, d_v), lse (batch, heads, n_q).
    Definition  O and LSE of `references`; magnitude = sum_j p_j |v_j|.
    Guarantee   With t = 110 + extra_bits, and if mpmath errs by at most one ulp per operation,
                output radius <= 2^-t magnitude (1 + 2^-20) + 2^-105 |O| + 2^-1073;
                lse radius    <= 2^-t + 2^-105 |LSE| + 2^-1073.
                With a single visible key (and no sink) the terms in t are 0 for the output and
                2^-t min(1, 4 (|t_1| + |bias_1|)) for the LSE.  magnitude is above the exact one,
                by less than 2^-50 of it (or 2^-1073).
    Requires    float64 arrays; heads a multiple of kv_heads; scale finite, softcap finite > 0.
    Special     As in `references`.  Where `rows` is given, only these (batch, head, query) are
                computed: the others have radius +inf and magnitude NaN.
    Source      `references.exact.precision`.
    """
    call = _Call(q, k, v, scale, causal, corner, window, mask, bias, softcap, sinks, extra_bits)
    batch, heads, n_q, _ = q.shape
    truth = AttentionTruth(
        output=unknown((batch, heads, n_q, v.shape[3]), (batch, heads, n_q)),
        lse=unknown((batch, heads, n_q), (batch, heads, n_q)),
        magnitude=np.full((batch, heads, n_q, v.shape[3]), np.nan),
    )
    for (b, h), queries in _by_head(rows, (batch, heads, n_q)).items():
        head = call.head(b, h, queries)
        for place, i in enumerate(queries):
            _row(truth, head, place, (b, h, i))
    return truth


def _by_head(rows: Iterable[Triple] | None, shape: Triple) -> dict[tuple[int, int], list[int]]:
    chosen = np.ndindex(shape) if rows is None else sorted(set(rows))
    groups: dict[tuple[int, int], list[int]] = {}
    for b, h, i in chosen:
        groups.setdefault((b, h), []).append(i)
    return groups


@dataclass(frozen=True)
class _Call:
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

    def head(self, b: int, h: int, queries: list[int]) -> _Head:
        """One head with its integers; only the query rows asked for."""
        kv = h // (self.q.shape[1] // self.k.shape[1])
        full = (self.q.shape[0], self.q.shape[1], self.q.shape[2], self.k.shape[2])
        q, k, v = self.q[b, h][queries], self.k[b, kv], self.v[b, kv]
        left, right, values = scaled_integers(q), scaled_integers(k), scaled_integers(v)
        dots = Scaled(left.integers @ right.integers.T, left.exponent + right.exponent)
        ones = np.full((v.shape[0], 1), 1, dtype=object)
        columns = np.hstack([values.integers, np.abs(values.integers), ones])
        return _Head(
            call=self,
            sight=Sight(full[2], full[3], self.causal, self.corner, self.window),
            q=q,
            k=k,
            v=v,
            dots=dots,
            columns=columns,
            value_exponent=values.exponent,
            regular=_finite(q) and _finite(k),
            mask=None if self.mask is None else np.broadcast_to(self.mask, full)[b, h],
            bias=None if self.bias is None else np.broadcast_to(self.bias, full)[b, h],
            sink=None if self.sinks is None else float(self.sinks[h]),
        )


@dataclass(frozen=True)
class _Head:
    """What the rows of one head share."""

    call: _Call
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
class _Weights:
    """The weights e_j of the keys that count, their shift and how large scores may be."""

    weights: dict[int, Real]
    sink: Real  # the sink's weight, 0 without one
    shift: Real
    size: float  # S of the proof, rounded up
    terms: int


def _row(truth: AttentionTruth, head: _Head, place: int, row: Triple) -> None:
    keys = head.keys(row[2])
    bias = head.bias_row(row[2])
    exponent = _score_exponent(head, place, keys, bias)
    target = TARGET_BITS + head.call.extra_bits
    with working_precision(working_bits(exponent, len(keys) + 1, target)) as mp:
        scores = _scores(mp, head, place, keys, bias)
        everything = [*scores.values(), *([] if head.sink is None else [mp.mpf(head.sink)])]
        if any(map(mp.isnan, everything)):
            _fill(truth, row, math.nan, NAN, math.nan, NAN)
        elif not everything:
            _fill(truth, row, 0.0, FINITE, -math.inf, NEGATIVE_INFINITY)
        elif all(s == mp.ninf for s in everything):
            _fill(truth, row, 0.0, FINITE | NAN, -math.inf, NEGATIVE_INFINITY | NAN)
        elif any(s == mp.inf for s in everything):
            weights = _limit(mp, scores, head.sink)
            _output(mp, truth, head, row, keys, weights, target, FINITE | NAN)
            put_special(truth.lse, row, math.inf, POSITIVE_INFINITY | NAN)
        else:
            weights = _exponentials(mp, scores, head.sink, _size(exponent))
            total = _output(mp, truth, head, row, keys, weights, target, FINITE)
            lse = weights.shift + mp.log(total)
            put(truth.lse, row, lse, _lse_radius(weights, target))


def _score_exponent(head: _Head, place: int, keys: list[int], bias: list[float]) -> int:
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


def _finite(x: Array) -> bool:
    return bool(np.isfinite(x).all())


def _exponent(x: float) -> int:
    return math.frexp(x)[1] if x else _NO_EXPONENT


def _scores(
    mp: Context, head: _Head, place: int, keys: list[int], bias: list[float]
) -> dict[int, Real]:
    """The scores of the visible keys; mpmath's infinities follow the extended real numbers."""
    call, q = head.call, head.q[place]
    scale = 1 / mp.sqrt(q.size) if call.scale is None else mp.mpf(call.scale)
    softcap = None if call.softcap is None else mp.mpf(call.softcap)
    scores = {}
    for j in keys:
        if head.regular or (_finite(q) and _finite(head.k[j])):
            y = mp.mpf((head.dots.integers[place, j], head.dots.exponent))
        else:
            y = mp.fdot(q.tolist(), head.k[j].tolist())
        t = scale * y
        s = t if softcap is None else softcap * mp.tanh(t / softcap)
        scores[j] = s + bias[j] if bias[j] else s
    return scores


def _limit(mp: Context, scores: dict[int, Real], sink: float | None) -> _Weights:
    """Equal weights on the scores of +inf."""
    weights = {j: mp.one for j, s in scores.items() if s == mp.inf}
    extra = mp.one if sink == math.inf else mp.zero
    return _Weights(weights, extra, mp.inf, 0.0, len(weights) + (sink == math.inf))


def _exponentials(
    mp: Context, scores: dict[int, Real], sink: float | None, size: float
) -> _Weights:
    finite = {j: s for j, s in scores.items() if s != mp.ninf}
    live_sink = sink is not None and sink != -math.inf
    shift = max([*finite.values(), *([mp.mpf(sink)] if live_sink else [])])
    shifted = {j: s - shift for j, s in finite.items()}
    exponentials = {z: mp.exp(z) for z in set(shifted.values())}  # ties are common in hard rows
    return _Weights(
        weights={j: exponentials[z] for j, z in shifted.items()},
        sink=mp.exp(mp.mpf(sink) - shift) if live_sink else mp.zero,
        shift=shift,
        size=size,
        terms=len(finite) + live_sink,
    )


def _output(
    mp: Context,
    truth: AttentionTruth,
    head: _Head,
    row: Triple,
    keys: list[int],
    found: _Weights,
    target: int,
    classes: int,
) -> Real:
    """Store the output and the magnitude of one row; returns the row sum l."""
    used = list(found.weights)
    sums = weighted_sums(mp, list(found.weights.values()), head.columns[used])
    total = sums[-1] + found.sink
    d_v = head.v.shape[1]
    special = {} if _finite(head.v) else _special_columns(head.v, keys, set(used))
    for c in range(d_v):
        value, extra = special.get(c, (0.0, 0))
        if value:
            put_special(truth.output, (*row, c), value, extra)
            continue
        magnitude = mp.ldexp(sums[d_v + c] / total, head.value_exponent)
        # a single term has p = 1 without any rounding
        radius = 0.0 if found.terms == 1 else up(upper(mp.ldexp(magnitude, -target)))
        output = mp.ldexp(sums[c] / total, head.value_exponent)
        put(truth.output, (*row, c), output, radius, classes | extra)
        truth.magnitude[(*row, c)] = upper(magnitude)
    return total


def _special_columns(v: Array, keys: list[int], used: set[int]) -> dict[int, tuple[float, int]]:
    """Columns that hold a non-finite visible value: what they give, and what else is accepted.

    The value 0.0 means: the enclosure stands, and the classes are added to its own.
    """
    found: dict[int, tuple[float, int]] = {}
    for c in range(v.shape[1]):
        live = {x for x in v[list(used), c].tolist() if not math.isfinite(x)}
        idle = [v[j, c] for j in keys if j not in used]
        if live == {math.inf}:
            found[c] = math.inf, POSITIVE_INFINITY | NAN
        elif live == {-math.inf}:
            found[c] = -math.inf, NEGATIVE_INFINITY | NAN
        elif live:
            found[c] = math.nan, NAN
        elif not all(map(math.isfinite, idle)):
            found[c] = 0.0, NAN
    return found


def _fill(
    truth: AttentionTruth, row: Triple, output: float, classes: int, lse: float, lse_classes: int
) -> None:
    put_special(truth.output, row, output, classes)
    put_special(truth.lse, row, lse, lse_classes)
    truth.magnitude[row] = 0.0 if output == 0.0 else math.nan


def _size(exponent: int) -> float:
    """2^exponent as a float, rounded up; 0 only if every score is exactly 0."""
    if exponent <= _NO_EXPONENT + 1:
        return 0.0
    return math.ldexp(1.0, min(max(exponent, -1074), 1023))


def _lse_radius(weights: _Weights, target: int) -> float:
    factor = min(1.0, weights.size) if weights.terms == 1 else 1.0
    return math.nextafter(math.ldexp(factor, -target), math.inf) if factor else 0.0
