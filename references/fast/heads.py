"""Attention, head by head: what the fast tier takes, what needs one more slice, what Arb."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from references import arb
from references.enclosure import (
    ARB,
    FAST,
    FAST_PLUS,
    FINITE,
    NAN,
    NEGATIVE_INFINITY,
    POSITIVE_INFINITY,
    Array,
    AttentionTruth,
    Enclosure,
)
from references.fast.block import compute
from references.fast.compiled import Indices
from references.fast.inputs import FLOOR, Booleans, Call, extra_bits
from references.fast.prepared import (
    Keys,
    Values,
    prepare_keys,
    prepare_values,
)
from references.fast.quotient import Result
from references.fast.scale import double_double
from references.fast.scores import Extras, Rules
from references.fast.scratch import scratch
from references.fast.threads import both, each, one_blas_thread, pool, while_it_pays

BLOCK = 64  # rows at a time: the width of the vector loops
SLICES = {FAST: 3, FAST_PLUS: 4}
_NO_KEYS = np.empty(0, np.int64)
KEEP_SCRATCH = 4096  # keys; above, memory of the block is given back after the call
Head = tuple[int, int]


class _Share(NamedTuple):
    """What the query heads of one kv head share; values that are not finite are taken as 0."""

    keys: Keys
    values: Values
    moved: Any  # keys and values on a device, or None
    bad_keys: Indices  # keys with an element that is not finite
    nan_keys: Indices
    bad_values: Indices


@cache
def _engine(device: str) -> Any:
    """The engine of a torch device; torch is imported when a call first asks for one."""
    from references.fast.device import Engine

    return Engine(device)


class _Words(NamedTuple):
    """The truth of a call, and the arrays that its numbers are views of.

    Shapes      output: (4, batch, heads, n_q, d_v) = hi, lo, radius, magnitude;
                lse: (3, batch, heads, n_q) = hi, lo, radius.
    """

    truth: AttentionTruth
    output: Array
    lse: Array


def _unknown(rows: tuple[int, int, int], d: int) -> _Words:
    """Radius inf everywhere."""
    output, lse = np.zeros((4, *rows, d)), np.zeros((3, *rows))
    output[2:].fill(np.inf)
    output[3].fill(np.nan)
    lse[2].fill(np.inf)
    parts = []
    for words in (output, lse):
        classes, tier = np.empty(words.shape[1:], np.uint8), np.empty(rows, np.uint8)
        classes.fill(FINITE)
        tier.fill(FAST)
        parts.append(Enclosure(words[0], words[1], words[2], classes, tier))
    return _Words(AttentionTruth(parts[0], parts[1], output[3]), output, lse)


def attention(
    call: Call, request: float, threads: int, device: str | None = None
) -> AttentionTruth:
    """The truth of a checked call; see `references.fast.attention`."""
    words, left = _unknown(call.q.shape[:3], call.v.shape[3]), np.ones(call.q.shape[:3], np.bool_)
    if call.inside:
        threads = threads if device is None else 1
        keep = call.k.shape[2] <= KEEP_SCRATCH
        with one_blas_thread(), pool(threads, keep) as workers:
            _Run(call, request, words, left, device).fast(threads, workers)
        if not keep:
            scratch.clear()
    _by_arb(call, request, words.truth, left)
    return words.truth


def rules_of(call: Call, request: float) -> tuple[Rules, float]:
    """The rules of a call's blocks, and the sign of its scale, which goes into q."""
    scale_h, scale_l = double_double(call.scale, call.q.shape[3])
    sign = -1.0 if scale_h < 0 else 1.0
    softcap = 0.0 if call.softcap is None else call.softcap
    whole = call.k.shape[2] if call.free else 0
    return Rules(sign * scale_h, sign * scale_l, softcap, request, *call.sight(), whole), sign


def extras_of(call: Call, head: Head) -> Extras:
    """Mask, bias and sink of one head; a bias of -inf has become part of the mask."""
    mask = None if call.mask is None else call.full(call.mask)[head]
    bias = None if call.bias is None else call.full(call.bias)[head]
    if bias is not None and np.isneginf(bias).any():
        seen = ~np.isneginf(bias)
        mask, bias = seen if mask is None else mask & seen, np.where(seen, bias, 0.0)
    sink = None if call.sinks is None else float(call.sinks[head[1]])
    return Extras(mask, bias, sink)


class _Run:
    """The fast tiers of one call; `left` keeps the rows that they cannot certify."""

    def __init__(
        self,
        call: Call,
        request: float,
        words: _Words,
        left: Booleans,
        device: str | None,
    ) -> None:
        self.call, self.truth, self.words, self.left = call, words.truth, words, left
        self.engine = None if device is None else _engine(device)
        self.block = BLOCK if self.engine is None else self.engine.rows(call.k.shape[2])
        self.rules, self.sign = rules_of(call, request)
        self.sight = self.rules.first, self.rules.stop

    def fast(self, threads: int, workers: Executor | None) -> None:
        """Every head that has finite sinks."""
        pairs = list(product(range(self.call.k.shape[0]), range(self.call.k.shape[1])))
        small = self.call.q.shape[2] * self.call.group <= 2 * BLOCK * threads
        if small and len(pairs) >= threads:
            each(lambda pair: self._share(pair, None), pairs, workers)
        else:
            for pair in pairs:
                self._share(pair, workers)

    def _share(self, pair: Head, workers: Executor | None) -> None:
        b, kv = pair
        k, v = self.call.k[b, kv], self.call.v[b, kv]
        _, fine_k, fine_v = self.call.finite
        keys, values = both(
            partial(prepare_keys, k if fine_k else np.where(np.isfinite(k), k, 0.0)),
            partial(prepare_values, v if fine_v else np.where(np.isfinite(v), v, 0.0)),
            workers,
        )
        share = _Share(
            keys, values, None if self.engine is None else self.engine.move(keys, values),
            _NO_KEYS if fine_k else np.flatnonzero(~np.isfinite(k).all(axis=1)),
            _NO_KEYS if fine_k else np.flatnonzero(np.isnan(k).any(axis=1)),
            _NO_KEYS if fine_v else np.flatnonzero(~np.isfinite(v).all(axis=1)),
        )  # fmt: skip
        for h in range(kv * self.call.group, (kv + 1) * self.call.group):
            self._head((b, h), share, workers)

    def _head(self, head: Head, share: _Share, workers: Executor | None) -> None:
        extras = extras_of(self.call, head)
        if extras.sink is not None and not np.isfinite(extras.sink):
            return
        q = self.call.q[head]
        plain = np.ones(len(q), np.bool_)
        if not all(self.call.finite) or extras.bias is not None:
            plain = self._plain_rows(head, q, share, extras)
        if np.count_nonzero(plain) < len(q):
            q = np.where(plain[:, None], q, 0.0)
            if extras.bias is not None:
                extras = Extras(
                    extras.mask, np.where(plain[:, None], extras.bias, 0.0), extras.sink
                )
        q = q if self.sign > 0 else -q

        def computed(block: slice | Indices, tier: int) -> Result:
            return self._computed(q, share, extras, block, SLICES[tier])

        self._climb(head, np.flatnonzero(plain), computed, workers)
        if share.bad_values.size:
            self._special_columns(head, share, extras, plain & ~self.left[head])

    def _computed(
        self, q: Array, share: _Share, extras: Extras, block: slice | Indices, slices: int
    ) -> Result:
        """A block of rows, on the host or on the device."""
        if self.engine is None:
            return compute(q, share.keys, share.values, self.rules, extras, block, slices)
        found: Result = self.engine.compute(
            q, share.keys, share.values, share.moved, self.rules, extras, block, slices
        )
        return found

    def _climb(
        self,
        head: Head,
        rows: Indices,
        computed: Callable[[slice | Indices, int], Result],
        workers: Executor | None,
    ) -> None:
        """Three slices, then four for the rows that are left; the first block says whether three
        will do for the others."""
        left = self.left[head]
        start = rows[:BLOCK]
        blocks = [*_blocks(start, BLOCK), *_blocks(rows[BLOCK:], self.block)]
        while_it_pays(
            lambda block: computed(block, FAST),
            lambda block, result: self._put(head, block, FAST, result),
            blocks,
            lambda: bool(2 * np.count_nonzero(left[start]) <= BLOCK),
            workers,
        )
        if np.count_nonzero(left):
            each(
                lambda block: self._put(head, block, FAST_PLUS, computed(block, FAST_PLUS)),
                _blocks(rows[left[rows]], self.block),
                workers,
            )

    def _put(self, head: Head, rows: slice | Indices, tier: int, result: Result) -> None:
        """Rows that are certified; the others keep radius inf."""
        keep, found, lse = rows, result.output, result.lse
        if not result.complete:
            good = result.certified | result.empty
            keep, found, lse = self._numbers(rows)[good], found[:, good], lse[:, good]
        b, h = head
        self.words.output[:, b, h, keep] = found
        self.words.lse[:, b, h, keep] = lse
        if tier != FAST:
            self.truth.output.tier[b, h, keep] = self.truth.lse.tier[b, h, keep] = tier
        self.left[head][keep] = False
        if not result.complete and result.empty.any():
            self._put_empty(head, self._numbers(rows)[result.empty])

    def _numbers(self, rows: slice | Indices) -> Indices:
        """The block's rows as numbers."""
        return np.arange(self.left.shape[2])[rows] if isinstance(rows, slice) else rows

    def _put_empty(self, head: Head, rows: Indices) -> None:
        for array in (self.truth.output.hi, self.truth.output.lo, self.truth.output.radius):
            array[head][rows] = 0.0
        self.truth.magnitude[head][rows] = 0.0
        self.truth.lse.hi[head][rows] = -np.inf
        self.truth.lse.lo[head][rows] = self.truth.lse.radius[head][rows] = 0.0
        self.truth.lse.classes[head][rows] = NEGATIVE_INFINITY

    # --- rows and columns that are not plain -----------------------------------------------------

    def _meets(self, extras: Extras, chosen: Indices) -> Booleans:
        """(n_q, keys): whether a row sees each of these keys."""
        first, stop = self.sight
        seen: Booleans = np.logical_and(first[:, None] <= chosen, chosen < stop[:, None])
        if extras.mask is not None:
            seen &= extras.mask[:, chosen]
        return seen

    def _plain_rows(self, head: Head, q: Array, share: _Share, extras: Extras) -> Booleans:
        """Rows whose scores are all finite; those with a NaN are answered here."""
        bad = np.zeros(len(q), np.bool_)
        if not self.call.finite[0]:
            bad |= ~np.isfinite(q).all(axis=1)
        if share.bad_keys.size:
            bad |= self._meets(extras, share.bad_keys).any(axis=1)
        if extras.bias is not None and not np.isfinite(extras.bias).all():
            bad |= ~np.isfinite(extras.bias).all(axis=1)
        if bad.any():
            nan = np.isnan(q).any(axis=1)
            nan &= self._meets(extras, np.arange(self.call.k.shape[2])).any(axis=1)
            nan |= self._meets(extras, share.nan_keys).any(axis=1)
            self._put_nan(head, np.flatnonzero(nan))
        return np.logical_not(bad)

    def _put_nan(self, head: Head, rows: Indices) -> None:
        for part in (self.truth.output, self.truth.lse):
            part.hi[head][rows], part.lo[head][rows], part.radius[head][rows] = np.nan, 0.0, 0.0
            part.classes[head][rows] = NAN
        self.left[head][rows] = False

    def _special_columns(self, head: Head, share: _Share, extras: Extras, rows: Booleans) -> None:
        """Columns in which a row sees a value that is not finite."""
        v = self.call.v[head[0], head[1] // self.call.group][share.bad_values]
        seen = self._meets(extras, share.bad_values)[rows].astype(np.float64)
        rises, falls, nan = (seen @ x > 0 for x in (v == np.inf, v == -np.inf, np.isnan(v)))
        for place, value, classes in (
            (rises, np.inf, POSITIVE_INFINITY | NAN),
            (falls, -np.inf, NEGATIVE_INFINITY | NAN),
            (nan | rises & falls, np.nan, NAN),
        ):
            where = (*head, *_places(rows, place))
            output = self.truth.output
            output.hi[where], output.lo[where], output.radius[where] = value, 0.0, 0.0
            output.classes[where] = classes
            self.truth.magnitude[where] = np.nan


def _blocks(rows: Indices, size: int) -> Iterator[slice | Indices]:
    """Blocks of rows; the partition depends on the rows alone."""
    for start in range(0, rows.size, size):
        block = rows[start : start + size]
        whole = block[-1] - block[0] + 1 == block.size
        yield slice(int(block[0]), int(block[-1]) + 1) if whole else block


def _places(rows: Booleans, place: Booleans) -> tuple[Indices, Indices]:
    """Row and column numbers of a (kept rows, d_v) choice."""
    i, c = np.nonzero(place)
    return np.flatnonzero(rows)[i], c


def _by_arb(call: Call, request: float, truth: AttentionTruth, left: Booleans) -> None:
    """The rows that are left, by ball arithmetic; a radius above the request becomes inf."""
    if np.count_nonzero(left) == 0:
        return
    rows = [(int(b), int(h), int(i)) for b, h, i in np.argwhere(left)]
    found = arb.attention(
        call.q, call.k, call.v, scale=call.scale, causal=call.causal, corner=call.corner,
        window=call.window, mask=call.mask, bias=call.bias, softcap=call.softcap,
        sinks=call.sinks, rows=rows, extra_bits=extra_bits(request),
    )  # fmt: skip
    truth.magnitude[left] = found.magnitude[left]
    sizes = np.maximum(1.0, np.abs(found.lse.hi[left]))
    for part, source, size in (
        (truth.output, found.output, found.magnitude[left]),
        (truth.lse, found.lse, sizes),
    ):
        part.hi[left], part.lo[left] = source.hi[left], source.lo[left]
        part.classes[left], part.tier[left] = source.classes[left], ARB
        radius, finite = source.radius[left], (source.classes[left] & FINITE) != 0
        missed = finite & ~(radius <= np.maximum(request * size, FLOOR))
        part.radius[left] = np.where(missed, np.inf, radius)
