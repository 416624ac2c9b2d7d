"""Folding: a call as blocks of rows that share their keys and values, in the shape that bounds use.

The query heads of one kv head become rows of one slab, so that no key or value is copied, and a
sink becomes one more key whose value is 0.  Blocks are small enough for the cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from references.decompose import Decomposition
from verify.bounds.statement import Array, Booleans
from verify.case import Inputs
from verify.operation import Operation

BLOCK = 2**18  # scores treated at a time

# Beyond this the oracle's probabilities would not disappear in INFLATION.
_P_ERROR = 2.0**-31


@dataclass(frozen=True)
class Rows:
    """
    A block of rows of one call: what the stages of a bound read.

    Shapes      keys (slabs, rows, n); per row (slabs, rows, 1); outputs (slabs, rows, d_v);
                values (slabs, n, d_v).  n counts the sink, the last key where there is one.
    Definition  live: the key takes part.  dot, dot_abs, uncapped, score, bias: |y|, A, |t| before a
                softcap, |s|, |bias|.  distance = M - s.  All are 0 where not live.
                output_error: how far `output` may be from O.
                broken_rows, broken_values: a NaN or an infinity reaches the row, the element.
                known: False where the oracle promises no probabilities.
                differences: scores times d_v in the whole call, whichever block this is.
                key_maximum: the largest score that is no sink's.
    """

    live: Booleans
    dot: Array
    dot_abs: Array
    dot_error: Array
    uncapped: Array
    score: Array
    bias: Array | None
    distance: Array
    p: Array
    count: Array
    maximum: Array
    key_maximum: Array
    row_sum: Array
    lse: Array
    output: Array
    output_error: Array
    values: Array
    broken_rows: Booleans
    broken_values: Booleans | None
    q: Array
    k: Array
    scale: float
    softcap: float | None
    has_sink: bool
    differences: int
    empty: Booleans
    known: Booleans

    @property
    def n(self) -> int:
        """Keys, the sink included."""
        return int(self.p.shape[2])

    @property
    def d(self) -> int:
        return int(self.q.shape[2])


@dataclass(frozen=True)
class _Folded:
    """Whole arrays in slabs (batch * kv_heads); cutting them gives Rows."""

    parts: Decomposition
    q: Array
    k: Array
    v: Array
    bias: Array | None
    broken: tuple[Booleans, Booleans, Booleans, Booleans] | None
    group: int
    softcap: float | None

    @property
    def slabs(self) -> int:
        return int(self.k.shape[0] * self.k.shape[1])

    @property
    def rows(self) -> int:
        return int(self.group * self.parts.p.shape[2])

    def fold(self, x: NDArray[Any]) -> NDArray[Any]:
        """(batch, heads, n_q, ...) -> (slabs, group * n_q, ...); the same memory where possible."""
        return x.reshape(self.slabs, self.rows, *x.shape[3:])

    def share(self, x: NDArray[Any]) -> NDArray[Any]:
        """(batch, kv_heads, ...) -> (slabs, ...)."""
        return x.reshape(self.slabs, *x.shape[2:])

    def cut(self, slabs: slice, rows: slice) -> Rows:
        parts = self.parts
        at = (slabs, rows)

        def pick(x: NDArray[Any]) -> NDArray[Any]:
            return self.fold(x)[at]

        def row(x: NDArray[Any]) -> NDArray[Any]:
            return pick(x)[..., None]

        live = pick(parts.visible)

        def size(x: Array) -> Array:
            return np.where(live, np.abs(pick(x)), 0.0)

        score = np.where(live, pick(parts.score), 0.0)
        maximum = np.where(np.isfinite(row(parts.maximum)), row(parts.maximum), 0.0)
        keys = {
            "live": live,
            "dot": size(parts.dot),
            "dot_abs": size(parts.abs_dot),
            "dot_error": size(parts.dot_error),
            "uncapped": size(parts.uncapped),
            "score": np.abs(score),
            "distance": np.where(live, np.maximum(maximum - score, 0.0), 0.0),
            "p": pick(parts.p),
        }
        bias = None if self.bias is None else size(self.bias)
        values = self.share(self.v)[slabs]
        key_maximum = np.where(live, pick(parts.score), -np.inf).max(axis=2, initial=-np.inf)
        if parts.sink_score is not None and parts.sink_p is not None:
            sink = row(parts.sink_score), row(parts.sink_p)
            keys, bias, values = _with_sink(keys, bias, values, sink, maximum)
        known = row(parts.p_error) <= _P_ERROR
        magnitude = pick(parts.magnitude)
        broken_rows, broken_values = self._broken(live, slabs, rows)
        error = row(np.minimum(parts.p_error, 1.0)) + (parts.p.shape[3] + 8) * 2.0**-53
        return Rows(
            **keys,
            bias=bias,
            count=keys["live"].sum(axis=2, dtype=np.float64, keepdims=True),
            maximum=maximum,
            key_maximum=key_maximum[..., None],
            row_sum=np.where(row(parts.row_sum) > 0, row(parts.row_sum), 1.0),
            lse=np.where(np.isfinite(row(parts.lse)), row(parts.lse), 0.0),
            output=pick(parts.output),
            output_error=error * magnitude + parts.p.shape[3] * 1e-300,
            values=values,
            broken_rows=broken_rows | row(parts.undefined),
            broken_values=broken_values,
            q=self.fold(self.q)[at],
            k=self.share(self.k)[slabs],
            scale=parts.scale,
            softcap=self.softcap,
            has_sink=parts.sink_score is not None,
            differences=parts.p.size * parts.output.shape[3],
            empty=row(parts.empty),
            known=known,
        )

    def _broken(
        self, live: Booleans, slabs: slice, rows: slice
    ) -> tuple[Booleans, Booleans | None]:
        """Rows (slabs, rows, 1) and elements (slabs, rows, d_v) that are not finite."""
        if self.broken is None:
            return np.zeros((*live.shape[:2], 1), dtype=bool), None
        q, k, v, bias = self.broken
        seen = live.astype(np.float64)
        by_key = (seen @ self.share(k[..., None])[slabs]) > 0
        by_value = (seen @ self.share(v)[slabs]) > 0
        pairs = (live & self.fold(bias)[slabs, rows]).any(axis=2, keepdims=True)
        return self.fold(q)[slabs, rows][..., None] | by_key | pairs, by_value


def _with_sink(
    keys: dict[str, Array],
    bias: Array | None,
    values: Array,
    sink: tuple[Array, Array],
    maximum: Array,
) -> tuple[dict[str, Array], Array | None, Array]:
    """One more key: no product, no bias, the score of the sink, the value 0."""
    there = np.isfinite(sink[0])
    score = np.where(there, sink[0], 0.0)
    last = {
        "live": there,
        "score": np.abs(score),
        "distance": np.where(there, np.maximum(maximum - score, 0.0), 0.0),
        "p": sink[1],
    }
    nothing = np.zeros(score.shape)
    keys = {
        name: np.concatenate([array, last.get(name, nothing)], axis=2)
        for name, array in keys.items()
    }
    bias = None if bias is None else np.concatenate([bias, nothing], axis=2)
    values = np.concatenate([values, np.zeros((len(values), 1, values.shape[2]))], axis=1)
    return keys, bias, values


def attention_rows(
    inputs: Inputs, operation: Operation, parts: Decomposition, *, whole: bool = False
) -> Iterator[tuple[tuple[slice, slice], Rows]]:
    """The call in blocks, each with its place among (slabs, rows); `whole`: slabs whole."""
    q, k, v = (_values(inputs, name) for name in "qkv")
    full = parts.p.shape
    bias = inputs.values("bias")
    bias = None if bias is None else np.broadcast_to(bias, full)
    folded = _Folded(
        parts, _finite(q), _finite(k), _finite(v), bias, _broken_inputs(q, k, v, bias, full),
        q.shape[1] // k.shape[1], operation.softcap,
    )  # fmt: skip
    yield from _blocks(folded, whole)


def softmax_rows(parts: Decomposition) -> Iterator[tuple[tuple[slice, slice], Rows]]:
    """The rows of a softmax in blocks; the record has no values."""
    _, _, rows, n = parts.p.shape
    nothing = np.zeros((1, 1, n, 0))
    yield from _blocks(
        _Folded(parts, np.zeros((1, 1, rows, 0)), nothing, nothing, None, None, 1, None)
    )


def _blocks(folded: _Folded, whole: bool = False) -> Iterator[tuple[tuple[slice, slice], Rows]]:
    slabs, rows = folded.slabs, folded.rows
    n = max(1, folded.parts.p.shape[3])
    step = max(1, rows) if whole else max(1, BLOCK // n)
    together = max(1, step // max(1, rows))
    for first in range(0, slabs, together):
        for start in range(0, rows, step):
            at = slice(first, min(first + together, slabs)), slice(start, min(start + step, rows))
            yield at, folded.cut(*at)


def _values(inputs: Inputs, name: str) -> Array:
    values = inputs.values(name)
    if values is None:
        raise KeyError(f"an attention bound needs {name}")
    return values


def _finite(x: Array) -> Array:
    return x if np.isfinite(x).all() else np.where(np.isfinite(x), x, 0.0)


def _broken_inputs(
    q: Array, k: Array, v: Array, bias: Array | None, full: tuple[int, ...]
) -> tuple[Booleans, Booleans, Booleans, Booleans] | None:
    """Where the inputs are not finite: rows, keys, values and pairs; None where all are."""
    pairs = np.zeros(full, dtype=bool)
    if bias is not None:
        pairs = ~(np.isfinite(bias) | (bias == -np.inf))
    rows = np.asarray(~np.isfinite(q).all(axis=3))
    keys = np.asarray(~np.isfinite(k).all(axis=3))
    found = rows, keys, ~np.isfinite(v), pairs
    return found if any(x.any() for x in found) else None


def sqrt_scale(rows: Rows) -> float:
    """An upper bound of sqrt |scale|."""
    return math.sqrt(rows.scale) * (1 + 2.0**-50)
