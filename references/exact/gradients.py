"""Gradients of attention in arbitrary precision: the sums over keys and over rows.

The proof is that of `references.exact.gradient_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from references.enclosure import FINITE, Array, AttentionGradients
from references.exact.gradient_rows import CLASSES, FINITE_TERM, Pair, Row, make_row
from references.exact.integers import Scaled, scaled_integers, weighted_sums
from references.exact.precision import TARGET_BITS, Context, Real, working_bits, working_precision
from references.exact.scores import Call, Head, score_exponent
from references.exact.words import put, put_special, unknown, up, upper

GUARD_BITS = 4  # rho <= 2^-(target + GUARD_BITS)
Rows = dict[tuple[int, int], Row]  # by head and query


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
    mask: NDArray[np.bool_] | None = None,
    bias: Array | None = None,
    softcap: float | None = None,
    sinks: Array | None = None,
    extra_bits: int = 0,
) -> AttentionGradients:
    """
    Gradients of attention as `references` defines them.

    Shapes      q, k, v and options: those of `attention`; do: (batch, heads, n_q, d_v);
                dlse: (batch, heads, n_q), None for zeros.  Returns the shapes of q, k, v, bias,
                sinks.
    Definition  dQ, dK, dV, dbias, dsinks and their magnitudes of `references`.
    Guarantee   If mpmath errs by at most one ulp per operation, with t = 110 + extra_bits,
                radius <= 2^-t magnitude (1 + 2^-20) + 2^-105 |value| + 2^-1073.
    Requires    float64 arrays; heads a multiple of kv_heads; scale finite, softcap finite > 0.
    Special     as in `references`.
    Source      the module's docstring.
    """
    call = Call(q, k, v, scale, causal, corner, window, mask, bias, softcap, sinks, extra_bits)
    if do.shape != (*q.shape[:3], v.shape[3]):
        raise ValueError(f"do has shape {do.shape}: use that of the output, {q.shape[:3]} and d_v")
    if dlse is not None and dlse.shape != q.shape[:3]:
        raise ValueError(f"dlse has shape {dlse.shape}: use that of the LSE, {q.shape[:3]}")
    return _Gradients(call, do, np.zeros(q.shape[:3]) if dlse is None else dlse).make()


class _Gradients:
    """The enclosures of one call while they are filled."""

    def __init__(self, call: Call, do: Array, dlse: Array) -> None:
        self.call, self.do, self.dlse = call, do, dlse
        self.target = TARGET_BITS + call.extra_bits
        shapes = {"dq": call.q.shape, "dk": call.k.shape, "dv": call.v.shape}
        self.found = {name: unknown(shape, shape[:-1]) for name, shape in shapes.items()}
        for name, given in (("dbias", call.bias), ("dsinks", call.sinks)):
            if given is not None:
                self.found[name] = unknown(given.shape, given.shape)
        self.magnitude = {name: np.full(found.shape, np.nan) for name, found in self.found.items()}

    def make(self) -> AttentionGradients:
        batch, heads, n_q, _ = self.call.q.shape
        places = list(product(range(batch), range(heads)))
        prepared = {place: self.call.head(*place, list(range(n_q))) for place in places}
        with working_precision(self._bits(prepared.values())) as mp:
            rows = {
                (b, h): [
                    make_row(mp, head, i, self.do[b, h, i].tolist(), float(self.dlse[b, h, i]))
                    for i in range(n_q)
                ]
                for (b, h), head in prepared.items()
            }
            group = heads // self.call.k.shape[1]
            for b, kv in np.ndindex(self.call.k.shape[:2]):
                heads_of = range(kv * group, (kv + 1) * group)
                shared = {(h, i): rows[b, h][i] for h in heads_of for i in range(n_q)}
                self._queries(mp, b, kv, shared)
                self._keys(mp, b, kv, shared)
                self._values(mp, b, kv, shared)
            if self.call.bias is not None:
                self._biases(mp, rows, self.call.bias.shape)
            if self.call.sinks is not None:
                self._sinks(mp, rows)
        found, get = self.found, self.found.get
        return AttentionGradients(
            found["dq"], found["dk"], found["dv"], get("dbias"), get("dsinks"), self.magnitude
        )

    def _bits(self, heads: Iterable[Head]) -> int:
        """One precision for the whole call; N is at least the length of every sum."""
        batch, count, n_q, n_k = *self.call.q.shape[:3], self.call.k.shape[2]
        exponent = max(
            (
                score_exponent(head, i, head.keys(i), head.bias_row(i))
                for head in heads
                for i in range(n_q)
            ),
            default=0,
        )
        terms = max(n_k + 1, batch * count * n_q * n_k)
        return working_bits(exponent, terms, self.target + GUARD_BITS)

    # --- the five gradients --------------------------------------------------------------------

    def _queries(self, mp: Context, b: int, kv: int, rows: Rows) -> None:
        keys = scaled_integers(self.call.k[b, kv])
        tau = self.call.tau(mp)
        for (h, i), row in rows.items():
            found = _sums(mp, list(row.dt.values()), _chosen(keys, list(row.dt)), tau)
            self._put(mp, "dq", (b, h, i), row.ds_level, found)

    def _keys(self, mp: Context, b: int, kv: int, rows: Rows) -> None:
        queries = scaled_integers(_stacked(self.call.q[b], rows))
        tau, all_rows = self.call.tau(mp), list(rows.values())
        for j in range(self.call.k.shape[2]):
            used = [r for r, row in enumerate(all_rows) if j in row.dt]
            found = _sums(mp, [all_rows[r].dt[j] for r in used], _chosen(queries, used), tau)
            level = max((row.ds_level for row in all_rows if j in row.keys), default=FINITE_TERM)
            self._put(mp, "dk", (b, kv, j), level, found)

    def _values(self, mp: Context, b: int, kv: int, rows: Rows) -> None:
        upstream = scaled_integers(_stacked(self.do[b], rows))
        all_rows = list(rows.values())
        for j in range(self.call.k.shape[2]):
            used = [r for r, row in enumerate(all_rows) if j in row.p]
            terms = [(all_rows[r].p[j], all_rows[r].p[j]) for r in used]
            found = _sums(mp, terms, _chosen(upstream, used), mp.one)
            seen = [row for row in all_rows if j in row.keys]
            for c, pair in enumerate(found):
                level = max((row.scores or row.do_level[c] for row in seen), default=FINITE_TERM)
                self._put_one(mp, "dv", (b, kv, j, c), level, pair)

    def _biases(
        self, mp: Context, rows: dict[tuple[int, int], list[Row]], shape: tuple[int, ...]
    ) -> None:
        """dS, summed over the axes along which the bias was broadcast."""
        full = (*self.call.q.shape[:3], self.call.k.shape[2])
        target = np.broadcast_to(np.arange(np.prod(shape, dtype=int)).reshape(shape), full)
        terms: dict[int, list[Pair]] = {}
        levels: dict[int, int] = {}
        for (b, h), some in rows.items():
            for i, row in enumerate(some):
                for j in row.keys:
                    place = int(target[b, h, i, j])
                    levels[place] = max(levels.get(place, FINITE_TERM), row.ds_level)
                    if j in row.ds:
                        terms.setdefault(place, []).append(row.ds[j])
        for number, index in enumerate(np.ndindex(shape)):
            pair = _total(mp, terms.get(number, []))
            self._put_one(mp, "dbias", index, levels.get(number, FINITE_TERM), pair)

    def _sinks(self, mp: Context, rows: dict[tuple[int, int], list[Row]]) -> None:
        for h in range(self.call.q.shape[1]):
            mine = [row for (_, head), some in rows.items() if head == h for row in some]
            level = max((row.ds_level for row in mine), default=FINITE_TERM)
            pair = _total(mp, [row.sink for row in mine if row.sink is not None])
            self._put_one(mp, "dsinks", (h,), level, pair)

    # --- storing -------------------------------------------------------------------------------

    def _put(
        self, mp: Context, name: str, place: tuple[int, ...], level: int, found: list[Pair]
    ) -> None:
        for c, pair in enumerate(found):
            self._put_one(mp, name, (*place, c), level, pair)

    def _put_one(
        self, mp: Context, name: str, place: tuple[int, ...], level: int, pair: Pair
    ) -> None:
        truth, classes = self.found[name], CLASSES[level]
        if level == FINITE_TERM:
            value, size = pair
            put(truth, place, value, up(upper(mp.ldexp(size, -self.target))))
            self.magnitude[name][place] = upper(size)
        elif classes & FINITE:
            truth.classes[place] = classes  # its radius is +inf already
        else:
            put_special(truth, place, np.nan, classes)


def _stacked(x: Array, rows: Rows) -> Array:
    """The rows (head, query) of x, (heads, n_q, columns), one below the other."""
    return np.array([x[place] for place in rows]).reshape(-1, x.shape[2])


def _chosen(x: Scaled, rows: list[int]) -> Scaled:
    return replace(x, integers=x.integers[rows])


def _sums(mp: Context, terms: list[Pair], factors: Scaled, scale: Real) -> list[Pair]:
    """scale sum_r term_r x_rc for every column c, and |scale| sum_r bound_r |x_rc|."""
    values = weighted_sums(mp, [value for value, _ in terms], factors.integers)
    sizes = weighted_sums(mp, [size for _, size in terms], np.abs(factors.integers))
    unit = mp.ldexp(scale, factors.exponent)
    return [(x * unit, size * abs(unit)) for x, size in zip(values, sizes, strict=True)]


def _total(mp: Context, terms: list[Pair]) -> Pair:
    ones = Scaled(np.full((len(terms), 1), 1, dtype=object), 0)
    return _sums(mp, terms, ones, mp.one)[0]
