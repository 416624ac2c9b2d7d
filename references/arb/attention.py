"""Attention in balls, one block of query rows at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat, fmpz_mat
from numpy.typing import NDArray

from references.arb.balls import Ball, integers, narrow, power_of_two, unknown, words
from references.arb.keys import Booleans, allowed, dot_kinds, partition
from references.arb.precision import FIRST_BITS, TARGET_BITS, ladder, precision
from references.enclosure import (
    FINITE,
    NAN,
    NEGATIVE_INFINITY,
    POSITIVE_INFINITY,
    Array,
    AttentionTruth,
    Enclosure,
)

Triple = tuple[int, int, int]
BLOCK = 2**18  # balls alive at a time


def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    scale: float | None = None,
    causal: bool = False,
    corner: str = "bottom-right",
    window: tuple[int, int] | None = None,
    mask: Booleans | None = None,
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
    Guarantee   |value - (hi + lo)| <= radius.  With t = 100 + extra_bits,
                output radius <= 2^-t magnitude + 2^-105 |O| + 2^-1073,
                lse radius    <= 2^-t max(1, |LSE|) + 2^-105 |LSE| + 2^-1073,
                or the whole row has radius +inf (4096 bits did not suffice).
                The relative error of magnitude is below 2^-30 (absolute: n_k 2^-1074).
    Requires    float64 arrays; heads a multiple of kv_heads; scale finite, softcap finite > 0.
    Special     As in `references`.  Where `rows` is given, only these (batch, head, query) are
                computed: the others have radius +inf and magnitude NaN.
    Source      Dot products are exact integers.  Ball arithmetic for the rest: F. Johansson, Arb,
                IEEE Transactions on Computers 66(8), 2017.
    """
    call = Call(q, k, v, scale, causal, corner, window, mask, bias, softcap, sinks, extra_bits)
    truth = AttentionTruth(
        output=unknown((*q.shape[:3], v.shape[3]), q.shape[:3]),
        lse=unknown(q.shape[:3], q.shape[:3]),
        magnitude=np.full((*q.shape[:3], v.shape[3]), np.nan),
    )
    wanted = np.ones(q.shape[:3], dtype=bool)
    if rows is not None:
        wanted[...] = False
        wanted[tuple(np.array(list(rows), dtype=np.intp).reshape(-1, 3).T)] = True
    step = max(1, BLOCK // max(1, k.shape[2]))
    for b, kv in np.ndindex(*k.shape[:2]):
        group = slice(kv * call.group, (kv + 1) * call.group)
        if wanted[b, group].any():
            shared = share(k[b, kv], v[b, kv])
            for h in range(group.start, group.stop):
                queries = np.flatnonzero(wanted[b, h])
                for first in range(0, len(queries), step):
                    block = Block(call, shared, (b, h), queries[first : first + step])
                    block.enclose(truth)
    return truth


@dataclass(frozen=True)
class Call:
    q: Array
    k: Array
    v: Array
    scale: float | None
    causal: bool
    corner: str
    window: tuple[int, int] | None
    mask: Booleans | None
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
        if self.corner not in ("bottom-right", "top-left"):
            raise ValueError(f"corner is {self.corner!r}: use 'bottom-right' or 'top-left'")
        if self.scale is not None and not np.isfinite(self.scale):
            raise ValueError(f"scale is {self.scale}: use a finite number")
        if self.softcap is not None and not 0 < self.softcap < np.inf:
            raise ValueError(f"softcap is {self.softcap}: use a finite number above 0")

    @property
    def group(self) -> int:
        """Query heads per kv head."""
        return int(self.q.shape[1] // self.k.shape[1])

    def part(self, x: NDArray[Any], head: tuple[int, int], queries: NDArray[np.intp]) -> Any:
        """Rows of one head of an array that broadcasts to (batch, heads, n_q, n_k)."""
        return np.broadcast_to(x, (*self.q.shape[:3], self.k.shape[2]))[head][queries]

    def scaling(self) -> Ball:
        return 1 / arb(self.q.shape[3]).sqrt() if self.scale is None else arb(float(self.scale))


@dataclass(frozen=True)
class Shared:
    """What the query heads of one kv head share."""

    k: Array
    v: Array
    keys: Any  # fmpz_mat, (d, n_k)
    key_exponent: int
    values: Any  # arb_mat, (n_k, d_v + 1): integers v, and 1
    value_exponent: int


def share(k: Array, v: Array) -> Shared:
    keys, key_exponent = integers(np.where(np.isfinite(k), k, 0.0))
    values, value_exponent = integers(np.where(np.isfinite(v), v, 0.0))
    matrix = fmpz_mat(k.shape[0], k.shape[1], [x for row in keys for x in row]).transpose()
    columns = [x for row in values for x in (*row, 1)]
    balls = arb_mat(fmpz_mat(v.shape[0], v.shape[1] + 1, columns))
    return Shared(k, v, matrix, key_exponent, balls, value_exponent)


class Block:
    """Some query rows of one head."""

    def __init__(
        self, call: Call, shared: Shared, head: tuple[int, int], queries: NDArray[np.intp]
    ) -> None:
        self.call, self.shared, self.head, self.queries = call, shared, head, queries
        self.q = call.q[head][queries]
        n_q, n_k = call.q.shape[2], call.k.shape[2]
        visible = allowed(queries, n_q, n_k, call.causal, call.corner, call.window)
        if call.mask is not None:
            visible = visible & call.part(call.mask, head, queries)
        self.bias = None if call.bias is None else call.part(call.bias, head, queries)
        if self.bias is not None:
            visible = visible & ~np.isneginf(self.bias)
        self.visible = visible
        self.sink = None if call.sinks is None else float(call.sinks[head[1]])
        self.products = self._products()
        self.parts = partition(visible, self._score_kinds(), self.sink)
        self.dots, self.exponent = self._dots()

    def _products(self) -> Array:
        """tau y as far as it is not finite."""
        kinds = dot_kinds(self.q, self.shared.k)
        with np.errstate(invalid="ignore"):
            scale = 1.0 if self.call.scale is None else self.call.scale
            return np.where(kinds == 0, 0.0, kinds * scale)

    def _score_kinds(self) -> Array:
        kinds = self.products
        if self.call.softcap is not None:
            kinds = np.where(np.isnan(kinds), kinds, 0.0)
        if self.bias is None:
            return kinds
        with np.errstate(invalid="ignore"):
            return kinds + np.where(np.isfinite(self.bias), 0.0, self.bias)

    def _dots(self) -> tuple[list[list[Any]], int]:
        rows, exponent = integers(np.where(np.isfinite(self.q), self.q, 0.0))
        matrix = (
            fmpz_mat(len(rows), self.q.shape[1], [x for row in rows for x in row])
            * self.shared.keys
        )
        entries, n_k = matrix.entries(), len(self.shared.k)
        split = [entries[i * n_k : (i + 1) * n_k] for i in range(len(self.q))]
        return split, exponent + self.shared.key_exponent

    # --- values -------------------------------------------------------------------------------

    def enclose(self, truth: AttentionTruth) -> None:
        """Fill in the rows of this block."""
        place = (*self.head, self.queries)
        output, lse, magnitude = self._without_keys()
        todo = np.flatnonzero(self.parts.used.any(axis=1))
        for bits in ladder(FIRST_BITS + self.guard(), self.call.extra_bits):
            if len(todo) == 0:
                break
            with precision(bits):
                good = self._attempt(todo, output, lse, magnitude)
            todo = todo[~good]
        self._unknown(todo, output, lse)
        self._special_rows(output, lse, magnitude)
        self._special_columns(output, magnitude)
        for target, source in ((truth.output, output), (truth.lse, lse)):
            target.hi[place], target.lo[place] = source.hi, source.lo
            target.radius[place], target.classes[place] = source.radius, source.classes
        truth.magnitude[place] = magnitude

    def guard(self) -> int:
        """Bits that the size of the scores costs where they are not subtracted exactly."""
        if self.bias is None and self.sink is None and self.call.softcap is None:
            return 16
        largest = max((abs(int(y)).bit_length() for row in self.dots for y in row), default=0)
        scale = 1.0 if self.call.scale is None else self.call.scale
        exponent = largest + self.exponent + int(np.frexp(scale)[1])
        finite = [] if self.bias is None else self.bias[np.isfinite(self.bias)]
        return 16 + max(0, exponent, int(np.frexp(np.max(np.abs(finite), initial=0.0))[1]))

    def _attempt(
        self, todo: NDArray[np.intp], output: Enclosure, lse: Enclosure, magnitude: Array
    ) -> Booleans:
        """Enclose the rows `todo` at the present precision; returns which are narrow enough."""
        rows = [self.weights(int(i)) for i in todo]
        n_k, d_v = self.shared.v.shape
        flat = [weight for row in rows for weight in row.weights]
        sums = (arb_mat(len(rows), n_k, flat) * self.shared.values).entries()
        totals = [sums[r * (d_v + 1) + d_v] + row.sink for r, row in enumerate(rows)]
        unit = power_of_two(-self.shared.value_exponent)
        divisors = [total * unit for total in totals]
        quotients = [
            x / divisor
            for r, divisor in enumerate(divisors)
            for x in sums[r * (d_v + 1) : r * (d_v + 1) + d_v]
        ]
        found = [w.reshape(len(rows), d_v) for w in words(quotients)]
        magnitude[todo] = self._magnitudes(rows, totals)
        self._put(output, todo, found)
        self._put(lse, todo, words([r.shift + t.log() for r, t in zip(rows, totals, strict=True)]))
        target = TARGET_BITS + self.call.extra_bits
        size = np.maximum(1.0, np.abs(lse.hi[todo]))
        good = narrow(output.radius[todo], output.hi[todo], magnitude[todo], target).all(axis=1)
        return good & narrow(lse.radius[todo], lse.hi[todo], size, target)

    def _put(self, enclosure: Enclosure, rows: NDArray[np.intp], found: Sequence[Array]) -> None:
        enclosure.hi[rows], enclosure.lo[rows], enclosure.radius[rows] = found

    def weights(self, i: int) -> _Row:
        """The weights of one row, and the shift that they are relative to."""
        used = np.flatnonzero(self.parts.used[i]).tolist()
        if self.parts.infinite[i]:
            shift, live = arb(0), [_ONE] * len(used)
            sink = _ONE if self.sink == np.inf else _ZERO
        elif self.bias is None and self.sink is None and self.call.softcap is None:
            tau = self.call.scaling() * power_of_two(self.exponent)
            dots = [self.dots[i][j] for j in used]
            top = max(dots) if tau >= 0 else min(dots)
            shift, live, sink = tau * top, [(tau * (y - top)).exp() for y in dots], _ZERO
        else:
            scores = self._scores(i, used)
            live_sink = self.sink is not None and self.sink != -np.inf
            middles = [s.mid() for s in scores] + ([arb(self.sink)] if live_sink else [])
            shift = max(middles)
            live = [(s - shift).exp() for s in scores]
            sink = (arb(self.sink) - shift).exp() if live_sink else _ZERO
        return _Row(_spread(live, used, len(self.shared.k)), sink, shift)

    def _scores(self, i: int, used: list[int]) -> list[Ball]:
        tau = self.call.scaling() * power_of_two(self.exponent)
        scores = [tau * self.dots[i][j] for j in used]
        if self.call.softcap is not None:
            cap = arb(float(self.call.softcap))
            signs = np.sign(self.products[i, used]).astype(int).tolist()  # of infinite products
            capped = zip(signs, scores, strict=True)
            scores = [cap * sign if sign else cap * (t / cap).tanh() for sign, t in capped]
        if self.bias is not None:
            bias = self.bias[i, used].tolist()
            scores = [s + b for s, b in zip(scores, bias, strict=True)]
        return scores

    def _magnitudes(self, rows: list[_Row], totals: list[Ball]) -> Array:
        """sum_j p_j |v_j| in float64, in balls where float64 underflows."""
        weights = np.array([list(map(float, row.weights)) for row in rows])
        values = np.abs(np.where(np.isfinite(self.shared.v), self.shared.v, 0.0))
        sums: Array = weights / np.array(list(map(float, totals)))[:, None] @ values
        largest = values.max(axis=0, initial=0.0)
        lost = len(values) * 2.0**-1074 * (1 + largest)
        careful = (lost > 2.0**-32 * sums) & (largest > 0)
        for r, c in np.argwhere(careful).tolist():
            terms = zip(rows[r].weights, values[:, c].tolist(), strict=True)
            sums[r, c] = float(sum((w * x for w, x in terms), _ZERO) / totals[r])
        return sums

    # --- rows and columns that are not plain -----------------------------------------------------

    def _without_keys(self) -> tuple[Enclosure, Enclosure, Array]:
        """The answer for rows without a weight: output 0, and the sink (or nothing) in the LSE."""
        m, d_v = len(self.queries), self.shared.v.shape[1]
        output, lse = unknown((m, d_v), (m,)), unknown((m,), (m,))
        output.radius[...] = lse.radius[...] = 0.0
        if self.sink is not None and np.isfinite(self.sink):
            lse.hi[...] = self.sink
            return output, lse, np.zeros((m, d_v))
        lse.hi[...] = -np.inf
        output.classes[...] = np.where(self.parts.blank, FINITE, FINITE | NAN)[:, None]
        lse.classes[...] = NEGATIVE_INFINITY | np.where(self.parts.blank, 0, NAN)
        return output, lse, np.zeros((m, d_v))

    def _unknown(self, rows: NDArray[np.intp], output: Enclosure, lse: Enclosure) -> None:
        output.radius[rows] = np.inf
        lse.radius[rows] = np.inf

    def _special_rows(self, output: Enclosure, lse: Enclosure, magnitude: Array) -> None:
        parts = self.parts
        weighted = parts.used.any(axis=1)
        lse.classes[weighted] = FINITE
        output.classes[weighted] = FINITE
        infinite, undefined = parts.infinite, parts.undefined
        _set(lse, infinite, np.inf, POSITIVE_INFINITY | NAN)
        output.classes[infinite] = FINITE | NAN
        _set(lse, undefined, np.nan, NAN)
        _set(output, undefined, np.nan, NAN)
        magnitude[undefined] = np.nan

    def _special_columns(self, output: Enclosure, magnitude: Array) -> None:
        v, parts = self.shared.v, self.parts
        if np.isfinite(v).all():
            return
        rises, falls, nan = (
            _meets(parts.used, x) for x in (v == np.inf, v == -np.inf, np.isnan(v))
        )
        output.classes[_meets(parts.idle, ~np.isfinite(v))] |= NAN
        _set(output, rises, np.inf, POSITIVE_INFINITY | NAN)
        _set(output, falls, -np.inf, NEGATIVE_INFINITY | NAN)
        _set(output, nan | rises & falls, np.nan, NAN)
        magnitude[rises | falls | nan] = np.nan


@dataclass(frozen=True)
class _Row:
    weights: list[Ball]  # one per key, 0 where it has none
    sink: Ball
    shift: Ball


_ZERO, _ONE = arb(0), arb(1)


def _spread(live: list[Ball], used: list[int], n_k: int) -> list[Ball]:
    if len(used) == n_k:
        return live
    row = [_ZERO] * n_k
    for j, weight in zip(used, live, strict=True):
        row[j] = weight
    return row


def _meets(keys: Booleans, holds: Booleans) -> Booleans:
    """(rows, d_v): some key of the row holds it in that column."""
    return np.asarray(keys.astype(np.float64) @ holds.astype(np.float64) > 0)


def _set(enclosure: Enclosure, place: Booleans, value: float, classes: int) -> None:
    enclosure.hi[place], enclosure.lo[place], enclosure.radius[place] = value, 0.0, 0.0
    enclosure.classes[place] = classes
