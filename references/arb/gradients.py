"""Gradients of attention in balls: matrices of balls, block by block of query rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat, fmpz_mat
from numpy.typing import NDArray

from references.arb.attention import BLOCK, Block, Call, Shared, share
from references.arb.balls import Ball, integers, narrow, power_of_two, unknown, words
from references.arb.gradient_kinds import Kinds, mark
from references.arb.keys import Booleans
from references.arb.precision import FIRST_BITS, TARGET_BITS, ladder, precision
from references.enclosure import FINITE, Array, AttentionGradients, Enclosure

Triple = tuple[int, int, int]
Balls = NDArray[Any]  # of dtype object
Rows = list[list[Ball]]
_SIZE_BITS = 64  # working precision of magnitudes


def attention_gradients(
    q: Array,
    k: Array,
    v: Array,
    do: Array,
    *,
    dlse: Array | None = None,
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
) -> AttentionGradients:
    """
    Gradients of attention as `references` defines them.

    Shapes      q, k, v and options: those of `attention`; do: (batch, heads, n_q, d_v);
                dlse: (batch, heads, n_q), None for zeros.  Returns the shapes of q, k, v, bias,
                sinks.
    Definition  dQ, dK, dV, dbias, dsinks and their magnitudes of `references`.
    Guarantee   |value - (hi + lo)| <= radius.  With t = 100 + extra_bits,
                radius <= 2^-t magnitude + 2^-105 |value| + 2^-1073, or it is +inf (4096 bits did
                not suffice).  The relative error of magnitude is below 2^-30.
    Requires    float64 arrays; heads a multiple of kv_heads; scale finite, softcap finite > 0.
    Special     as in `references`.  Where `rows` is given, only these (batch, head, query) take
                part: dk, dv, dbias, dsinks are the sums over them, and the other rows of dq have
                radius +inf and magnitude NaN.
    Source      ball arithmetic: F. Johansson, Arb, IEEE Transactions on Computers 66(8), 2017.
    """
    call = Call(q, k, v, scale, causal, corner, window, mask, bias, softcap, sinks, extra_bits)
    if do.shape != (*q.shape[:3], v.shape[3]):
        raise ValueError(f"do has shape {do.shape}: use that of the output, {q.shape[:3]} and d_v")
    if dlse is not None and dlse.shape != q.shape[:3]:
        raise ValueError(f"dlse has shape {dlse.shape}: use that of the LSE, {q.shape[:3]}")
    wanted = np.ones(q.shape[:3], dtype=bool)
    if rows is not None:
        wanted[...] = False
        wanted[tuple(np.array(list(rows), dtype=np.intp).reshape(-1, 3).T)] = True
    return _Gradients(call, do, np.zeros(q.shape[:3]) if dlse is None else dlse, wanted).make()


@dataclass(frozen=True)
class _Piece:
    """Some rows of one head: the block of the forward pass, and what is upstream of it."""

    block: Block
    kinds: Kinds
    place: tuple[int, int]
    queries: Any  # fmpz_mat (rows, d), q
    query_exponent: int
    upstream: Any  # fmpz_mat (rows, d_v), dO
    products: list[list[Any]]  # dP as integers
    upstream_exponent: int
    product_exponent: int
    dlse: list[float]


@dataclass(frozen=True)
class _Terms:
    """p, dS, dT and F of a piece, as rows of balls; the sink's terms and what bounds them."""

    p: Rows
    ds: Rows
    dt: Rows
    size: Rows
    sink: Ball
    sink_size: Ball


class _Gradients:
    """The sums of one call, in balls; they are made again with more bits until they are narrow."""

    def __init__(self, call: Call, do: Array, dlse: Array, wanted: Booleans) -> None:
        self.call, self.do, self.dlse, self.wanted = call, do, dlse, wanted
        self.shapes = {"dq": call.q.shape, "dk": call.k.shape, "dv": call.v.shape}
        if call.bias is not None:
            self.shapes["dbias"] = call.bias.shape
        if call.sinks is not None:
            self.shapes["dsinks"] = call.sinks.shape
        self.pieces = list(self._pieces())

    def make(self) -> AttentionGradients:
        found = {}
        for name, shape in self.shapes.items():
            found[name] = unknown(shape, shape[:-1] if name in ("dq", "dk", "dv") else shape)
        sizes: dict[str, Array] = {}
        guard = max((piece.block.guard() for piece in self.pieces), default=0)
        for bits in ladder(FIRST_BITS + guard, self.call.extra_bits):
            with precision(bits):
                sums, bounds = self._sums()
                with precision(_SIZE_BITS):
                    sizes = {name: _floats(balls) for name, balls in bounds.items()}
                good = [self._fill(found[name], sums[name], sizes[name]) for name in found]
            if all(good):
                break
        self._finish(found, sizes)
        get = found.get
        return AttentionGradients(
            found["dq"], found["dk"], found["dv"], get("dbias"), get("dsinks"), sizes
        )

    def _fill(self, truth: Enclosure, balls: Balls, size: Array) -> bool:
        hi, lo, radius = (part.reshape(balls.shape) for part in words(balls.ravel().tolist()))
        good = narrow(radius, hi, size, TARGET_BITS + self.call.extra_bits)
        truth.hi[...], truth.lo[...] = hi, lo
        truth.radius[...] = np.where(good, radius, np.inf)
        return bool(good.all())

    def _finish(self, found: dict[str, Enclosure], sizes: dict[str, Array]) -> None:
        """Rows that were not asked for, and elements that something not finite reaches."""
        found["dq"].radius[~self.wanted] = np.inf
        sizes["dq"][~self.wanted] = np.nan
        for name, kinds in self._kinds().items():
            mark(found[name], kinds)
            sizes[name][found[name].classes != FINITE] = np.nan

    def _kinds(self) -> dict[str, NDArray[np.int64]]:
        """What of the not finite reaches each element: the strongest of its terms."""
        kinds = {name: np.zeros(shape, dtype=np.int64) for name, shape in self.shapes.items()}
        for piece in self.pieces:
            b, h = piece.place
            at, queries = (b, h // self.call.group), piece.block.queries
            row, own = piece.kinds.row, piece.kinds
            kinds["dq"][b, h, queries] = row[:, None]
            pairs = np.where(own.visible, row[:, None], 0)
            np.maximum(kinds["dk"][at], pairs.max(axis=0, initial=0)[:, None], out=kinds["dk"][at])
            values = np.where(own.visible[:, :, None], own.columns[:, None, :], 0)
            np.maximum(kinds["dv"][at], values.max(axis=0, initial=0), out=kinds["dv"][at])
            if "dbias" in kinds:
                np.maximum.at(kinds["dbias"].reshape(-1), self._bias_places(piece), pairs)
            if "dsinks" in kinds:
                kinds["dsinks"][h] = max(kinds["dsinks"][h], row.max(initial=0))
        return kinds

    def _bias_places(self, piece: _Piece) -> NDArray[np.intp]:
        """Flat places in dbias of the pairs of a piece."""
        shape = self.shapes["dbias"]
        places = np.arange(int(np.prod(shape))).reshape(shape)
        found: NDArray[np.intp] = self.call.part(places, piece.place, piece.block.queries)
        return found

    # --- pieces --------------------------------------------------------------------------------

    def _pieces(self) -> Iterable[_Piece]:
        step = max(1, BLOCK // max(1, self.call.k.shape[2]))
        for b, kv in np.ndindex(*self.call.k.shape[:2]):
            shared = share(self.call.k[b, kv], self.call.v[b, kv])
            for h in range(kv * self.call.group, (kv + 1) * self.call.group):
                queries = np.flatnonzero(self.wanted[b, h])
                for first in range(0, len(queries), step):
                    yield self._piece(shared, (b, h), queries[first : first + step])

    def _piece(self, shared: Shared, place: tuple[int, int], queries: NDArray[np.intp]) -> _Piece:
        block = Block(self.call, shared, place, queries)
        do, dlse = self.do[place][queries], self.dlse[place][queries]
        rows, query_exponent = _matrix(block.q)
        upstream, upstream_exponent = _matrix(do)
        values, value_exponent = _matrix(shared.v)
        products = (upstream * values.transpose()).entries()
        n_k = len(shared.k)
        return _Piece(
            block,
            Kinds.of(block, do, dlse),
            place,
            rows,
            query_exponent,
            upstream,
            [products[r * n_k : (r + 1) * n_k] for r in range(len(queries))],
            upstream_exponent,
            upstream_exponent + value_exponent,
            np.where(np.isfinite(dlse), dlse, 0.0).tolist(),
        )

    # --- sums ----------------------------------------------------------------------------------

    def _sums(self) -> tuple[dict[str, Balls], dict[str, Balls]]:
        """Every gradient, and its sum of absolute terms, at the present precision."""
        sums, sizes = (
            {name: _zeros(shape) for name, shape in self.shapes.items()} for _ in range(2)
        )
        for piece in self.pieces:
            terms, h = self._terms(piece), piece.place[1]
            self._add(sums, piece, terms.p, terms.ds, terms.dt, absolute=False)
            with precision(_SIZE_BITS):
                self._add(sizes, piece, terms.p, terms.size, terms.size, absolute=True)
            if "dsinks" in sums:
                sums["dsinks"][h] += terms.sink
                sizes["dsinks"][h] += terms.sink_size
        return sums, sizes

    def _add(
        self, into: dict[str, Balls], piece: _Piece, p: Rows, ds: Rows, dt: Rows, absolute: bool
    ) -> None:
        """The part of a piece in every sum; of the absolute terms where `absolute`."""
        b, h = piece.place
        at, tau = (b, h // self.call.group), self.call.scaling()
        keys, key_exponent = _matrix(piece.block.shared.k)
        found = _product(_balls(dt), keys, tau * power_of_two(key_exponent), absolute)
        into["dq"][b, h, piece.block.queries] = found
        unit = tau * power_of_two(piece.query_exponent)
        into["dk"][at] += _product(_balls(dt).transpose(), piece.queries, unit, absolute)
        unit = power_of_two(piece.upstream_exponent)
        into["dv"][at] += _product(_balls(p).transpose(), piece.upstream, unit, absolute)
        if "dbias" in into:
            flat, pairs = into["dbias"].reshape(-1), [x for row in ds for x in row]
            for place, ball in zip(self._bias_places(piece).ravel().tolist(), pairs, strict=True):
                flat[place] += ball

    def _terms(self, piece: _Piece) -> _Terms:
        found = _Terms([], [], [], [], arb(0), arb(0))
        sink = sink_size = arb(0)
        unit = power_of_two(piece.product_exponent)
        n_k = len(piece.block.shared.k)
        for r, products in enumerate(piece.products):
            blank = [_ZERO] * n_k
            p, ds, dt, size = (list(blank) for _ in range(4))
            if not piece.kinds.scores[r] and piece.kinds.weighted[r]:
                row = piece.block.weights(r)
                total = sum(row.weights, row.sink)
                p = [weight / total for weight in row.weights]
                if not piece.kinds.row[r]:
                    dp = [x * unit for x in products]
                    mean = sum((x * y for x, y in zip(p, dp, strict=True)), _ZERO)
                    spread = sum((x * abs(y) for x, y in zip(p, dp, strict=True)), _ZERO)
                    extra = arb(piece.dlse[r])
                    shift, more = extra - mean, spread + abs(extra)
                    ds = [x * (y + shift) for x, y in zip(p, dp, strict=True)]
                    size = [x * (abs(y) + more) for x, y in zip(p, dp, strict=True)]
                    dt = self._damped(piece.block, r, ds)
                    sink = sink + row.sink / total * shift
                    sink_size = sink_size + row.sink / total * more
            found.p.append(p)
            found.ds.append(ds)
            found.dt.append(dt)
            found.size.append(size)
        return _Terms(found.p, found.ds, found.dt, found.size, sink, sink_size)

    def _damped(self, block: Block, r: int, ds: list[Ball]) -> list[Ball]:
        """dS times the slope of the softcap, 1/cosh^2."""
        if self.call.softcap is None:
            return ds
        ratio = self.call.scaling() * power_of_two(block.exponent) / arb(float(self.call.softcap))
        used = block.parts.used[r].tolist()
        rows = zip(ds, block.dots[r], used, strict=True)
        return [x / (ratio * y).cosh() ** 2 if live else x for x, y, live in rows]


_ZERO = arb(0)


def _matrix(x: Array) -> tuple[Any, int]:
    """Integers, and the exponent of their unit; what is not finite counts as 0."""
    rows, exponent = integers(np.where(np.isfinite(x), x, 0.0))
    return fmpz_mat(x.shape[0], x.shape[1], [entry for row in rows for entry in row]), exponent


def _zeros(shape: tuple[int, ...]) -> Balls:
    found = np.empty(shape, dtype=object)
    found[...] = _ZERO
    return found


def _balls(rows: Rows) -> Any:
    width = len(rows[0]) if rows else 0
    return arb_mat(len(rows), width, [x for row in rows for x in row])


def _product(left: Any, factor: Any, unit: Ball, absolute: bool) -> Balls:
    """unit left factor as an array of balls; |unit|, |factor| where `absolute`."""
    if absolute:
        entries = [abs(entry) for entry in factor.entries()]
        factor, unit = fmpz_mat(factor.nrows(), factor.ncols(), entries), abs(unit)
    product = (left * arb_mat(factor)).entries()
    found = np.empty(len(product), dtype=object)
    found[:] = [x * unit for x in product]
    return found.reshape(left.nrows(), factor.ncols())


def _floats(balls: Balls) -> Array:
    """Upper ends in float64."""
    values = [float(ball.upper()) for ball in balls.ravel().tolist()]
    return np.array(values, dtype=np.float64).reshape(balls.shape)
