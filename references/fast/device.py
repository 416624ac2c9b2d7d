"""The fast tier on a torch device: the same slices, sums and radii, whole rows at a time.

K, V and a block of q are sliced on the host as ever (`prepared`, `slicing`); products, exponentials
and sums are made on the device; quotient, logarithm and radius on the host again (`quotient`).  So
the proof is that of the fast tier, with the differences of docs/theory/fast-oracle.md, part 9.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from references.enclosure import Array
from references.fast.compiled import Indices
from references.fast.device_pairs import (
    Exponential,
    Pair,
    divide,
    fast_two_sum,
    product_error,
    two_sum,
)
from references.fast.device_sums import Dense, Moved, cut_weights, sums_over_keys
from references.fast.prepared import CHUNK, QUERY_BITS, Keys, Values
from references.fast.quotient import ABOVE, Averages, Result, Shift, finish, score_errors
from references.fast.scores import STATIC, Extras, Rules, general_kernels
from references.fast.slicing import Cut, cut_queries
from references.fast.weights import REMOVED

MOST_SCORES = 2**22  # of a block: about 30 arrays of that many float64 numbers at a time


@dataclass(frozen=True)
class _Queries:
    """A block of q in slices on the device, and what `score_errors` needs of it on the host."""

    slices: list[Tensor]
    rest: Tensor
    left: tuple[Tensor, Tensor] | None
    left_rows: Tensor | None
    size: Array
    left_sums: Array
    left_places: Indices


@dataclass(frozen=True)
class _Products:
    """y = slices + left + listed; the second of a pair is a rounded product."""

    slices: list[Tensor]
    left: Pair | None
    listed: Pair | None

    def added(self, start: Tensor) -> Pair:
        """start + y: exact parts by two_sum, their errors and the rounded parts in the second."""
        h, e = two_sum(self.slices[0], start)
        for exact in self.slices[1:]:
            h, error = two_sum(h, exact)
            e = e + error
        for pair in (self.listed, self.left):
            if pair is not None:
                h, error = two_sum(h, pair[0])
                e = e + (error + pair[1])
        return h, e

    def largest(self) -> Tensor:
        """Slices and exact leftovers, each addition rounded: what the shift is chosen from."""
        total = self.slices[0] if self.left is None else self.slices[0] + self.left[0]
        for more in self.slices[1:]:
            total = total + more
        return total


class Engine:
    """`block.compute` on a device.

    rows    of a block with n keys: `rows(n)`
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.exponential = Exponential(device)

    def rows(self, n: int) -> int:
        """Rows of a block, so that a block has at most MOST_SCORES scores."""
        return max(1, min(4096, MOST_SCORES // max(n, 1)))

    def move(self, keys: Keys, values: Values) -> Moved:
        """What the query heads of a kv head share, on the device."""
        padded = values.head.shape[0] * CHUNK
        d_v = values.head.shape[1]
        flat = values.head.transpose(0, 2, 1).reshape(padded, d_v)
        size = values.size.transpose(0, 2, 1).reshape(padded, d_v)
        return Moved(
            self._dense(keys.cut, keys.cut.head, padded),
            self._dense(values.cut, flat, padded),
            self._put(size),
        )

    def _put(self, x: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(x)).to(self.device)

    def _dense(self, cut: Cut, head: Array, padded: int) -> Dense:
        whole = np.zeros((padded, head.shape[1]))
        whole[: len(head)] = head
        if not cut.column.size:
            return Dense(self._put(whole), None, None, None)
        row = np.repeat(np.arange(len(cut.start) - 1), np.diff(cut.start))
        middle, tail = np.zeros(whole.shape), np.zeros(whole.shape)
        middle[row, cut.column], tail[row, cut.column] = cut.middle, cut.tail
        return Dense(self._put(whole), self._put(middle), self._put(tail), self._put(middle + tail))

    def compute(
        self,
        q: Array,
        keys: Keys,
        values: Values,
        moved: Moved,
        rules: Rules,
        extras: Extras,
        chosen: slice | Indices,
        slices: int,
    ) -> Result:
        """
        The rows `chosen` of one head, with 3 or 4 slices of p; as `block.compute`.

        Shapes      q: (n_q, d), of which the rows `chosen` are computed.
        Guarantee   that of `block.compute`.
        Source      docs/theory/fast-oracle.md, part 9.
        """
        queries = self._queries(q[chosen], keys)
        visible = self._visible(rules, extras, chosen, len(moved.keys.head), len(keys.cut.head))
        seen = visible.sum(dim=1)
        error, unseen = score_errors(queries.size, queries.left_places, queries.left_sums, keys)
        y = self._products(queries, moved.keys)
        bias = None if extras.bias is None else self._bias(extras.bias[chosen], len(visible[0]))
        if rules.softcap > 0.0 or bias is not None or extras.sink is not None:
            s = self._general(y, rules, bias)
            reference = self._maximum(s[0], visible, seen, extras.sink)
            reference = reference + 2.0**-50 * reference.abs()
            x = _joined(two_sum(s[0], -reference[:, None]), s[1])
            size = queries.size * (keys.whole * rules.scale_h * ABOVE)
            if extras.bias is not None:
                size = size + np.abs(extras.bias[chosen]).max(axis=1)
            error = error * rules.scale_h + 2.0**-99 * size + 2.0**-98 * rules.softcap + STATIC
            scale = (1.0, 0.0)
        else:
            reference = self._maximum(y.largest(), visible, seen, None)
            reference = reference + (self._put(unseen) + 2.0**-50 * reference.abs())
            scale = (rules.scale_h, rules.scale_l)
            x = _scaled(y.added(-reference[:, None]), *scale)
            error = error * rules.scale_h + STATIC
        p = self.exponential(x[0].masked_fill(~visible, REMOVED), x[1])
        place, sinks = reference.cpu().numpy(), None
        if extras.sink is not None:
            sinks = np.empty((2, place.size))
            general_kernels().sink_weights(extras.sink, place, sinks)
        shift = Shift(place, scale, error, seen.cpu().numpy(), sinks)
        return self._finished(p, moved, values, rules, shift, slices)

    def _queries(self, q: Array, keys: Keys) -> _Queries:
        rows, d = q.shape
        rest, left = np.empty((d, rows)), np.empty(2 * d * rows)
        size, sums, places = np.empty(rows), np.empty(rows), np.empty(rows, np.int64)
        count = 1 if keys.bits == QUERY_BITS.narrow else 2
        made = np.empty((d, count * rows))
        kept = cut_queries(q, keys.bits, made, left, rest, size, places, sums)
        if count == 1 and 4 * kept > rows:
            count, made = 2, np.empty((d, 2 * rows))
            kept = cut_queries(q, keys.bits, made, left, rest, size, places, sums)
        made = made.reshape(d, count, rows)
        parts = left[: 2 * d * kept].reshape(d, 2, kept)
        return _Queries(
            [self._put(made[:, i].T) for i in range(count)],
            self._put(rest.T),
            (self._put(parts[:, 0].T), self._put(parts[:, 1].T)) if kept else None,
            torch.from_numpy(places[:kept].copy()).to(self.device) if kept else None,
            size, sums[:kept].copy(), places[:kept].copy(),
        )  # fmt: skip

    def _visible(
        self, rules: Rules, extras: Extras, chosen: slice | Indices, padded: int, n: int
    ) -> Tensor:
        """(rows, padded): whether a row sees a key."""
        key = torch.arange(padded, device=self.device)
        first, stop = (
            torch.from_numpy(np.ascontiguousarray(x[chosen])).to(self.device)[:, None]
            for x in (rules.first, rules.stop)
        )
        visible = (key >= first) & (key < stop)
        if extras.mask is not None:
            mask = np.zeros((visible.shape[0], padded), np.bool_)
            mask[:, :n] = extras.mask[chosen]
            visible &= torch.from_numpy(mask).to(self.device)
        return visible

    def _bias(self, bias: Array, padded: int) -> Tensor:
        whole = np.zeros((len(bias), padded))
        whole[:, : bias.shape[1]] = bias
        return self._put(whole)

    def _products(self, queries: _Queries, keys: Dense) -> _Products:
        first = queries.slices[0]
        left = listed = None
        if queries.left is not None and queries.left_rows is not None:
            whole = torch.zeros(
                2, len(first), len(keys.head), dtype=first.dtype, device=self.device
            )
            for place, part in zip(whole, queries.left, strict=True):
                place[queries.left_rows] = part @ keys.head.T
            left = (whole[0], whole[1])
        if keys.middle is not None and keys.tail is not None and keys.rest is not None:
            rounded = first @ keys.tail.T + queries.rest @ keys.rest.T
            listed = (first @ keys.middle.T, rounded)
        return _Products([s @ keys.head.T for s in queries.slices], left, listed)

    def _general(self, y: _Products, rules: Rules, bias: Tensor | None) -> Pair:
        """softcap tanh(scale y / softcap) + bias, normalised."""
        zero = torch.zeros_like(y.slices[0][:, :1])
        h, e = _scaled(y.added(zero), rules.scale_h, rules.scale_l)
        if rules.softcap > 0.0:
            h, e = self._capped(h, e, rules.softcap)
        if bias is None:
            return fast_two_sum(h, e)
        s, error = two_sum(h, bias)
        return fast_two_sum(s, error + e)

    def _capped(self, h: Tensor, e: Tensor, softcap: float) -> Pair:
        z, low = divide(h, e, softcap, 0.0)
        sign = 2.0 * (z > 0.0).to(z.dtype) - 1.0
        wh, wl = self.exponential(-2.0 * sign * z, -2.0 * sign * low)
        nh, nl = two_sum(torch.ones_like(wh), -wh)
        nh, nl = fast_two_sum(nh, nl - wl)
        dh, dl = two_sum(torch.ones_like(wh), wh)
        dh, dl = fast_two_sum(dh, dl + wl)
        q, ql = divide(nh, nl, dh, dl)
        c = sign * softcap
        p = q * c
        return fast_two_sum(p, product_error(q, c, p) + ql * c)

    def _maximum(self, y: Tensor, visible: Tensor, seen: Tensor, sink: float | None) -> Tensor:
        """The largest computed score of each row; the sink or 0 where it sees no key."""
        found = y.masked_fill(~visible, -torch.inf).amax(dim=1)
        return found.masked_fill(seen == 0, 0.0 if sink is None else sink)

    def _finished(
        self,
        p: Pair,
        moved: Moved,
        values: Values,
        rules: Rules,
        shift: Shift,
        slices: int,
    ) -> Result:
        parts, sums = cut_weights(*p, values.bits, slices)
        h, low, magnitude = sums_over_keys(parts, p[0], moved)
        n_h, n_l, size = (np.ascontiguousarray(x.T.cpu().numpy()) for x in (h, low, magnitude))
        total = Averages(n_h, n_l, size, sums.cpu().numpy())
        output, chunks = np.empty((4, *n_h.shape)), values.head.shape[0]
        return finish(total, shift, values, chunks, slices, rules.request, output)


def _scaled(y: Pair, scale_h: float, scale_l: float) -> Pair:
    """scale (h + e), normalised: 38 u^2 of scale D (part 9)."""
    h, e = y
    p = h * scale_h
    return fast_two_sum(p, product_error(h, scale_h, p) + (h * scale_l + e * scale_h))


def _joined(pair: Pair, low: Tensor) -> Pair:
    """pair + low, normalised."""
    s, error = two_sum(pair[0], low)
    return fast_two_sum(s, pair[1] + error)
