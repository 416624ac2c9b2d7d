"""Gradients of attention: blocks of query rows, the sums of a kv head, and what Arb must add."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from references import arb
from references.enclosure import (
    ARB,
    FAST,
    FAST_PLUS,
    FINITE,
    Array,
    AttentionGradients,
    Enclosure,
)
from references.fast.gradient_block import Block, Upstream, backward
from references.fast.heads import BLOCK, SLICES, Head, extras_of, rules_of
from references.fast.inputs import FLOOR, Booleans, Call, extra_bits
from references.fast.lanes import FLOOR as LOST
from references.fast.lanes import Lanes
from references.fast.prepared import Values, prepare_keys, prepare_values
from references.fast.quotient import ABOVE
from references.fast.scale import double_double
from references.fast.shared_sums import BiasSums, Sums, Terms, sum_sinks
from references.fast.threads import one_blas_thread

ROW_SHARE = 0.5  # of the request, for the errors of a row's own dS
FAST_SHARE = 0.75  # of the request, for the sums: Arb's part, and adding it, take the rest


@dataclass(frozen=True)
class Backward:
    """A checked call, and what is upstream of it."""

    call: Call
    do: Array
    dlse: Array
    request: float

    @property
    def inside(self) -> bool:
        """Whether the fast tier may try: sizes in the domain, every number finite, but for a
        bias of -inf."""
        call, arrays = self.call, [self.do, self.dlse]
        arrays += [] if call.sinks is None else [call.sinks]
        if call.bias is not None:
            arrays.append(np.where(np.isneginf(call.bias), 0.0, call.bias))
        finite = all(call.finite) and all(bool(np.isfinite(x).all()) for x in arrays)
        return finite and call.inside and min(*call.q.shape, *call.v.shape) > 0

    def by_arb(self, rows: Booleans | None) -> AttentionGradients:
        """By balls: all rows, or the sums over some."""
        call = self.call
        chosen = (
            None if rows is None else [(int(b), int(h), int(i)) for b, h, i in np.argwhere(rows)]
        )
        found = arb.attention_gradients(
            call.q, call.k, call.v, self.do, dlse=self.dlse, scale=call.scale, causal=call.causal,
            corner=call.corner, window=call.window, mask=call.mask, bias=call.bias,
            softcap=call.softcap, sinks=call.sinks, rows=chosen,
            extra_bits=extra_bits(self.request) + 1,
        )  # fmt: skip
        for name, part in found.parts().items():
            allowed = np.maximum(self.request * found.magnitude[name], FLOOR)
            finite = (part.classes & FINITE) != 0
            part.radius[finite & ~(part.radius <= allowed)] = np.inf
        return found


def attention_gradients(work: Backward) -> AttentionGradients:
    """The gradients of a checked call; see `references.fast.attention_gradients`."""
    if not work.inside:
        return work.by_arb(None)
    run = _Run(work)
    with one_blas_thread():
        for b, kv in np.ndindex(work.call.k.shape[:2]):
            run.group((b, kv))
    found = run.found()
    if run.hopeless or 2 * np.count_nonzero(run.left) > run.left.size:
        return work.by_arb(None)
    if run.left.any():
        found = _with_rows(found, work.by_arb(run.left), run.left)
    if run.again.any():
        _replace(found, work.by_arb(run.again), run)
    return found


class _Run:
    """
    The fast tiers of one call.

    left      rows that take no part, since their own errors are too large: Arb adds them
    again     rows whose dq Arb makes again: their own did not reach the request, or a dk or dv of
              the kv head (then `failed`), for which Arb takes all rows of its query heads
    hopeless  dbias or dsinks did not reach the request: everything by Arb
    """

    def __init__(self, work: Backward) -> None:
        self.work, call = work, work.call
        self.rules, self.sign = rules_of(call, work.request)
        self.scale = double_double(call.scale, call.q.shape[3])
        self.left, self.again = (np.zeros(call.q.shape[:3], np.bool_) for _ in range(2))
        self.failed = np.zeros(call.k.shape[:2], np.bool_)
        self.hopeless = False
        shapes = {"dq": call.q.shape, "dk": call.k.shape, "dv": call.v.shape}
        self.parts = {name: _blank(shape) for name, shape in shapes.items()}
        self.magnitude = {name: np.zeros(shape) for name, shape in shapes.items()}
        full = (*call.q.shape[:3], call.k.shape[2])
        self.bias = None if call.bias is None else BiasSums(call.bias.shape, full)
        self.sinks: list[list[Terms]] = [[] for _ in range(call.q.shape[1])]

    def group(self, pair: Head) -> None:
        """A kv head with its query heads: three slices, then four where that does not do; rows
        that are left to Arb are taken out of q and dO, whose grids they would spoil."""
        sums = _Group(self, pair, FAST, None)
        sums.compute()
        if not sums.met and sums.left.any():
            sums = _Group(self, pair, FAST, sums.left)
            sums.compute()
        if not sums.met:
            sums = _Group(self, pair, FAST_PLUS, sums.left)
            sums.compute()
        sums.store()

    def found(self) -> AttentionGradients:
        """What there is so far; `left`, `again` and `hopeless` are still to be seen to."""
        shared: dict[str, Sums] = {}
        if self.bias is not None:
            shared["dbias"] = self.bias.enclosure()
        if self.work.call.sinks is not None:
            shared["dsinks"] = sum_sinks(self.sinks)
        for name, sums in shared.items():
            self.magnitude[name], radius = sums.magnitude, sums.enclosure.radius
            met = _met(radius, sums.magnitude, sums.missed, self.work.request)
            self.hopeless |= not bool(met.all())
        parts = {**self.parts, **{name: sums.enclosure for name, sums in shared.items()}}
        return AttentionGradients(
            parts["dq"], parts["dk"], parts["dv"], parts.get("dbias"), parts.get("dsinks"),
            self.magnitude,
        )  # fmt: skip


class _Group:
    """The sums of one kv head, with the slices of a tier."""

    def __init__(self, run: _Run, pair: Head, tier: int, without: Booleans | None) -> None:
        call, self.run, self.pair, self.tier = run.work.call, run, pair, tier
        self.first, self.without = without is None, without
        k, v = call.k[pair], call.v[pair]
        self.heads = range(pair[1] * call.group, (pair[1] + 1) * call.group)
        self.keys, self.values = prepare_keys(k), prepare_keys(v)
        self.key_columns = prepare_values(k)
        self.dk, self.dv = Lanes(k.shape[1], len(k)), Lanes(v.shape[1], len(v))
        self.dq = np.zeros((5, call.group, *call.q.shape[2:]))
        self.left = np.zeros(self.dq.shape[1:3], np.bool_)
        # for dk and dv: the largest relative error of a row, and what the sums lack
        self.relative, self.missed = np.zeros(2), np.zeros(2)

    def compute(self) -> None:
        """Every block of every query head."""
        for h in self.heads:
            self._head(h)
        lanes, request = np.ones(len(self.run.work.call.k[self.pair])), self.run.work.request
        self.found_dk, self.found_dv = (
            sums.finished(scale, relative * lanes, missed * lanes)
            for sums, scale, relative, missed in zip(
                (self.dk, self.dv), (self.run.scale, (1.0, 0.0)), self.relative, self.missed,
                strict=True,
            )
        )  # fmt: skip
        self.keys_met = all(
            bool(_met(found[2], found[3], found[4], request).all())
            for found in (self.found_dk, self.found_dv)
        )
        self.short = ~_met(self.dq[2], self.dq[3], self.dq[4], request).all(axis=2) & ~self.left

    @property
    def met(self) -> bool:
        return self.keys_met and not self.short.any()

    def _head(self, h: int) -> None:
        run, call, b = self.run, self.run.work.call, self.pair[0]
        q, do = call.q[b, h], run.work.do[b, h]
        signed = q if run.sign > 0 else -q
        out = np.zeros(len(q), np.bool_)
        if self.without is not None:
            out = self.without[h - self.heads.start]
        columns = (prepare_values(np.where(out[:, None], 0.0, x)) for x in (q, do))
        upstream = Upstream(do, run.work.dlse[b, h], *columns)
        extras = extras_of(call, (b, h))
        for start in range(0, len(q), BLOCK):
            rows = slice(start, min(start + BLOCK, len(q)))
            block = backward(
                signed, self.keys, self.values, run.rules, extras, upstream, rows,
                ROW_SHARE * run.work.request,
            )  # fmt: skip
            self.left[h - self.heads.start, rows] = block.left
            if self.first:  # the same for every number of slices
                if block.sink is not None:
                    run.sinks[h].append((block.sink, block.relative_ds, block.missed_sink))
                if run.bias is not None and block.j1 > block.j0:
                    run.bias.add(block, (b, h), rows)
            if block.j1 > block.j0:
                self._add(block, h - self.heads.start, rows, upstream)

    def _add(self, block: Block, local: int, rows: slice, upstream: Upstream) -> None:
        """A block's rows of dq, and its part of dk and dv."""
        r = rows.stop - rows.start
        p, dt = (tuple(x.reshape(-1, r) for x in pair) for pair in (block.p, block.dt))
        size = block.size.reshape(-1, r)
        dq = Lanes(self.dq.shape[3], r)
        dq.add(dt[0], dt[1], size, self.key_columns, block.j0, SLICES[self.tier])
        missed = block.missed_ds * self.key_columns.columns[0].max()
        found = dq.finished(self.run.scale, block.relative_dt, missed)
        self.dq[:, local, rows] = found.transpose(0, 2, 1)
        self._over_rows(self.dk, (dt[0], dt[1], size), upstream.queries, rows.start, block.j0)
        self._over_rows(self.dv, (p[0], p[1], p[0]), upstream.columns, rows.start, block.j0)
        relative = [block.relative_dt.max(), block.relative_p.max()]
        self.relative = np.maximum(self.relative, relative)
        largest = [float(x.columns[0].max()) for x in (upstream.queries, upstream.columns)]
        missing = [float(block.missed_ds.sum()), float(block.missed_p.sum())]
        self.missed += np.array(largest) * missing

    def _over_rows(
        self, sums: Lanes, x: tuple[Array, Array, Array], columns: Values, start: int, j0: int
    ) -> None:
        """Adds x^T times the block's rows of q or dO, for the keys from j0 on."""
        part = Lanes(sums.sums.shape[1], x[0].shape[0])
        high, low, size = (np.ascontiguousarray(y.T) for y in x)
        part.add(high, low, size, columns, start, SLICES[self.tier])
        sums.merge(part, j0)

    def store(self) -> None:
        """The group's gradients, and the rows that Arb must see to."""
        run, (b, kv) = self.run, self.pair
        heads = slice(self.heads.start, self.heads.stop)
        for name, place, found in (
            ("dq", (b, heads), self.dq),
            ("dk", (b, kv), self.found_dk.transpose(0, 2, 1)),
            ("dv", (b, kv), self.found_dv.transpose(0, 2, 1)),
        ):
            part = run.parts[name]
            part.hi[place], part.lo[place], part.radius[place] = found[:3]
            part.tier[place] = self.tier
            run.magnitude[name][place] = found[3]
        run.left[b, heads] = self.left
        run.again[b, heads] = True if not self.keys_met else self.short
        run.failed[b, kv] = not self.keys_met


def _blank(shape: tuple[int, ...]) -> Enclosure:
    return Enclosure(
        np.zeros(shape), np.zeros(shape), np.zeros(shape), np.full(shape, FINITE, np.uint8),
        np.full(shape[:-1], FAST, np.uint8),
    )  # fmt: skip


def _met(radius: Array, magnitude: Array, missed: Array, request: float) -> Booleans:
    """Whether the radius, but for what negligible weights and underflow add, is what was asked of
    the fast tier; never for NaN or inf."""
    allowed = FAST_SHARE * request * magnitude + missed + LOST
    return np.asarray((radius <= allowed) & (allowed < np.inf))


def _with_rows(
    found: AttentionGradients, extra: AttentionGradients, rows: Booleans
) -> AttentionGradients:
    """With the rows that Arb made: their dq, and their part of every sum."""
    _copy(found, extra, "dq", rows)
    sums = {}
    for name, part in found.parts().items():
        if name != "dq":
            sums[name] = _sum(part, extra.parts()[name])
            found.magnitude[name][...] += extra.magnitude[name]
    dbias, dsinks = sums.get("dbias"), sums.get("dsinks")
    return replace(found, dk=sums["dk"], dv=sums["dv"], dbias=dbias, dsinks=dsinks)


def _sum(a: Enclosure, b: Enclosure) -> Enclosure:
    """The sum of two enclosures of finite numbers."""
    s, e = _two_sum(a.hi, b.hi)
    hi, lo = _two_sum(s, e + (a.lo + b.lo))
    radius = (a.radius + b.radius) * ABOVE + 2.0**-103 * (np.abs(a.hi) + np.abs(b.hi))
    return replace(a, hi=hi, lo=lo, radius=radius)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _replace(found: AttentionGradients, exact: AttentionGradients, run: _Run) -> None:
    """The rows of dq that were made again, and dk, dv of the kv heads that failed."""
    _copy(found, exact, "dq", run.again & ~run.left)
    for name in ("dk", "dv"):
        _copy(found, exact, name, run.failed)


def _copy(
    found: AttentionGradients, source: AttentionGradients, name: str, place: Booleans
) -> None:
    part, other = found.parts()[name], source.parts()[name]
    part.hi[place], part.lo[place] = other.hi[place], other.lo[place]
    part.radius[place], part.tier[place] = other.radius[place], ARB
    found.magnitude[name][place] = source.magnitude[name][place]
