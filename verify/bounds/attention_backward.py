"""Theorem 3: how far the gradients of attention may be from the exact ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from references.decompose import Decomposition
from verify.arithmetic import ArithmeticModel, forward_fields
from verify.bounds.attention import RowsBound, rows_bound
from verify.bounds.backward_probabilities import BackwardP, backward_p, p_for_values
from verify.bounds.folding import Rows, attention_rows
from verify.bounds.gradient_sums import Terms, finished, summed
from verify.bounds.score_gradients import (
    ScoreGradients,
    roundings,
    score_gradients,
    tile_underflow,
)
from verify.bounds.statement import GRADIENT_STAGES, Array, Booleans, Bound, largest
from verify.bounds.variants import Shared, Variant
from verify.case import Inputs
from verify.formats import FORMATS
from verify.operation import Operation, gradient_names


def attention_backward_bound_of_models(
    inputs: Inputs, operation: Operation, parts: Decomposition, models: Sequence[ArithmeticModel]
) -> Bound:
    """
    The bounds of dQ, dK, dV (and dbias, dsinks) under any of several models.

    Shapes      the result is the bound of dQ; `others` holds those of dk, dv, dbias, dsinks; parts:
                the decomposition of the same inputs (do aside).
    Definition  dV = P^T dO, dQ = tau dX K, dK = tau dX^T Q, dbias = dS, dsinks = sum dS of the sink
                (dX = dS, or dS times the slope of the softcap), summed where kv heads or a bias are
                shared.
    Guarantee   Theorem 3.  If the kernel follows one of the models and no flag is raised, then with
                E the error of dX (`score_gradients`) and e_V that of P (`p_for_values`)
                |dQ_hat - dQ| <= fin(E |K|, |dX| |K|),  |dK_hat - dK| <= fin(E^T |Q|, |dX|^T |Q|),
                |dV_hat - dV| <= fin(e_V^T |dO|, p^T |dO|), fin as in `gradient_sums`.
    Requires    what the model declares; D and O as the forward pass of the same model gives them.
    Special     rows without keys: 0.  A flag of a row reaches dK and dV of the keys that it sees.
                `probable` is `total`.
    Source      docs/theory/bounds.md, section 14.
    """
    do = inputs["do"].values
    names = gradient_names(operation.name, inputs.tensors)
    bounds = []
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        distinct = tuple(dict.fromkeys(models))
        pieces: dict[ArithmeticModel, list[_Piece]] = {model: [] for model in distinct}
        for at, rows in attention_rows(inputs, operation.forward, parts, whole=True):
            forward: dict[ArithmeticModel, RowsBound] = {}
            for variant in Shared(rows, distinct):
                alone = forward_fields(variant.model)
                if alone not in forward:
                    forward[alone] = rows_bound(rows, variant, 1.0)
                piece = _Piece.of(inputs, rows, at, variant, forward[alone], do)
                pieces[variant.model].append(piece)
        for model, found in pieces.items():
            bounds.append(_assembled(inputs, operation, parts, model, found, names))
    return largest(bounds)


@dataclass(frozen=True)
class _Piece:
    """Slabs of whole rows under one model: everything that the gradients are made of.

    do      (slabs, rows, d_v), 0 where it is not finite (`broken_do`); group: query heads of a kv
            head; flags (slabs, rows, 1) by name, p_flags those that concern P: all that dV = P^T dO
            depends on
    """

    rows: Rows
    variant: Variant
    p: BackwardP
    ds: ScoreGradients
    do: Array
    broken_do: Booleans
    group: int
    flags: dict[str, Booleans]
    p_flags: dict[str, Booleans]

    @classmethod
    def of(
        cls,
        inputs: Inputs,
        rows: Rows,
        at: tuple[slice, slice],
        variant: Variant,
        forward: RowsBound,
        do: Array,
    ) -> _Piece:
        kv_heads = inputs["k"].shape[1]
        group = inputs["q"].shape[1] // max(kv_heads, 1)
        slabs = inputs["k"].shape[0] * kv_heads
        given = do.reshape(slabs, -1, do.shape[3])[at]
        broken = ~np.isfinite(given)
        folded = np.where(broken, 0.0, given)
        p = backward_p(rows, variant, forward)
        ds = score_gradients(rows, variant, forward, p, folded)
        flags, p_flags = _flags(rows, forward, ds, broken), _p_flags(rows, forward, p)
        return cls(rows, variant, p, ds, folded, broken, group, flags, p_flags)

    @property
    def keys(self) -> slice:
        """The columns that are keys: all but the sink's."""
        return slice(0, self.rows.k.shape[1])

    def by_head(self, x: NDArray[Any]) -> NDArray[Any]:
        """(slabs, group * n_q, ...) -> (slabs, group, n_q, ...)."""
        return x.reshape(x.shape[0], self.group, -1, *x.shape[2:])


def _flags(
    rows: Rows, forward: RowsBound, ds: ScoreGradients, broken_do: Booleans
) -> dict[str, Booleans]:
    """All flags per row (slabs, rows, 1): of the forward pass, of dS, and of the inputs."""
    flags = forward.row_flags | {
        name: flag.any(axis=2, keepdims=True) for name, flag in forward.flags.items()
    }
    broken = rows.broken_rows | broken_do.any(axis=2, keepdims=True)
    if rows.broken_values is not None:
        broken = broken | rows.broken_values.any(axis=2, keepdims=True)
    known = {name: np.asarray(flag) for name, flag in flags.items()}
    return _of_rows(rows, known | ds.flags, broken)


def _p_flags(rows: Rows, forward: RowsBound, p: BackwardP) -> dict[str, Booleans]:
    """The flags that concern P, and with it dV, which reads neither the values nor the output:
    those of the forward pass but for the accumulator of P V (O7) and the output (O9), and of P."""
    flags = forward.row_flags | {
        name: flag.any(axis=2, keepdims=True) for name, flag in forward.flags.items()
    }
    kept = {name: np.asarray(flag) for name, flag in flags.items() if name not in ("O7", "O9")}
    return _of_rows(rows, kept | p.flags, rows.broken_rows)


def _of_rows(rows: Rows, flags: dict[str, Booleans], broken: Booleans) -> dict[str, Booleans]:
    flags = flags | {"undefined": broken, "undecomposed": ~rows.known}
    return {
        name: np.broadcast_to(flag, rows.empty.shape) & ~rows.empty for name, flag in flags.items()
    }


# --- the gradients of one piece ----------------------------------------------------------------


def _dq(piece: _Piece) -> Bound:
    rows, model, some = piece.rows, piece.variant.model, piece.keys
    k, ds = np.abs(rows.k), piece.ds
    terms = Terms(
        value=np.abs(ds.capped[..., some] @ rows.k),
        size=np.abs(ds.capped[..., some]) @ k,
        error=ds.error[..., some] @ k,
        by_p=ds.by_p[..., some] @ k,
        by_d=ds.by_d[..., some] @ k,
    )
    count = rows.live[..., some].sum(axis=2, keepdims=True)
    found = summed(terms, model, count, rows.k.shape[1], scale=rows.scale, chunk=1)
    return finished(found, model, piece.flags)


def _over_queries(piece: _Piece, left: Array, right: Array) -> Array:
    """sum over the queries of each head: (slabs, heads of the slab, n_k, columns)."""
    a, b = piece.by_head(left[..., piece.keys]), piece.by_head(right)
    return np.asarray(np.swapaxes(a, 2, 3) @ b)


def _dk(piece: _Piece) -> Bound:
    ds, q = piece.ds, np.abs(piece.rows.q)
    terms = Terms(
        value=np.abs(_over_queries(piece, ds.capped, piece.rows.q)),
        size=_over_queries(piece, np.abs(ds.capped), q),
        error=_over_queries(piece, ds.error, q),
        by_p=_over_queries(piece, ds.by_p, q),
        by_d=_over_queries(piece, ds.by_d, q),
    )
    exact = _over_queries(piece, ds.capped, piece.rows.q).sum(axis=1)
    return _of_keys(piece, terms, np.abs(exact), piece.rows.scale, _seen(piece, piece.flags))


def _dv(piece: _Piece) -> Bound:
    rows, size = piece.rows, np.abs(piece.do)
    wrong = p_for_values(rows, piece.variant.model, piece.p)
    more = (1 + FORMATS[piece.variant.model.softmax_format].u) ** roundings(rows, piece.variant)
    wrong = more * wrong + (more - 1) * rows.p
    lost = np.where(rows.live, tile_underflow(piece.variant, 0.0), 0.0)
    terms = Terms(
        value=np.abs(_over_queries(piece, rows.p, piece.do)),
        size=_over_queries(piece, rows.p, size),
        error=_over_queries(piece, wrong, size) + _over_queries(piece, lost, np.ones_like(size)),
        by_p=_over_queries(piece, piece.p.error, size),
        by_d=np.zeros(1),
    )
    exact = _over_queries(piece, rows.p, piece.do).sum(axis=1)
    flags = _seen(piece, piece.p_flags)
    live = rows.live[..., piece.keys].astype(np.float64)
    columns = np.swapaxes(live, 1, 2) @ piece.broken_do.astype(np.float64) > 0
    flags["undefined"] = flags["undefined"] | columns
    return _of_keys(piece, terms, np.abs(exact), None, flags)


def _seen(piece: _Piece, flags: Mapping[str, Booleans]) -> dict[str, Booleans]:
    """Flags of rows as flags of the keys that these rows see, (slabs, n_k, 1)."""
    seen = piece.rows.live[..., piece.keys]
    return {name: np.any(flag & seen, axis=1)[..., None] for name, flag in flags.items()}


def _of_keys(
    piece: _Piece,
    terms: Terms,
    value: Array,
    scale: float | None,
    flags: Mapping[str, Booleans],
) -> Bound:
    """dK or dV: the sums of the heads, added for each kv head (value: the exact result)."""
    model = piece.variant.model
    live = piece.by_head(piece.rows.live[..., piece.keys])
    count = live.sum(axis=2)[..., None]
    n_q = live.shape[2]
    operands = (model.p_format,) if scale is None else None
    whole = terms.over_heads(value)
    found = summed(
        whole, model, count.sum(axis=1), n_q * piece.group,
        scale=scale, chunk=0, operands=operands,
    )  # fmt: skip
    if model.group_format is not None and piece.group > 1:
        each = summed(terms, model, count, n_q, scale=scale, chunk=0, operands=operands)
        each = each.rounded_to(model.group_format)
        found = found.either(each.added(piece.group, model.group_format, value))
    return finished(found, model, flags)


# --- assembly ----------------------------------------------------------------------------------


def _assembled(
    inputs: Inputs,
    operation: Operation,
    parts: Decomposition,
    model: ArithmeticModel,
    pieces: Sequence[_Piece],
    names: Sequence[str],
) -> Bound:
    shapes = {"dq": inputs["q"].shape, "dk": inputs["k"].shape, "dv": inputs["v"].shape}
    makers = {"dq": _dq, "dk": _dk, "dv": _dv}
    found: dict[str, Bound] = {
        name: _joined([make(piece) for piece in pieces], shapes[name])
        for name, make in makers.items()
    }
    if "dbias" in names:
        found["dbias"] = _dbias(inputs, parts, model, pieces)
    if "dsinks" in names:
        found["dsinks"] = _dsinks(inputs, parts, model, pieces)
    first = found.pop("dq")
    return Bound(
        first.total, first.probable, first.flagged, first.flag_reasons, first.parts, others=found
    )


def _joined(bounds: Sequence[Bound], shape: tuple[int, ...]) -> Bound:
    """Slabs one after the other, in the shape of the gradient."""

    def whole(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        if not arrays:
            return np.zeros(shape)
        return np.concatenate(list(arrays)).reshape(shape)

    names = sorted({name for b in bounds for name in b.flag_reasons})
    total = whole([b.total for b in bounds])
    return Bound(
        total,
        total,
        whole([b.flagged for b in bounds]).astype(bool),
        {
            name: whole(
                [b.flag_reasons.get(name, np.zeros(b.total.shape, bool)) for b in bounds]
            ).astype(bool)
            for name in names
        },
        {stage: whole([b.parts[stage] for b in bounds]) for stage in GRADIENT_STAGES},
    )


@dataclass(frozen=True)
class _Pairs:
    """dS of the whole call, (batch, heads, n_q, n_k) or of the sink (batch, heads, n_q)."""

    value: Array
    error: Array
    by_p: Array
    by_d: Array
    live: Booleans
    flags: Mapping[str, Booleans]


def _pairs(parts: Decomposition, pieces: Sequence[_Piece], sink: bool) -> _Pairs:
    shape = parts.p.shape[:3] if sink else parts.p.shape

    def whole(arrays: list[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate(arrays).reshape(shape)

    def cut(piece: _Piece, x: NDArray[Any]) -> NDArray[Any]:
        return x[..., -1] if sink else x[..., piece.keys]

    def every(name: str) -> NDArray[Any]:
        return whole([cut(p, getattr(p.ds, name)) for p in pieces])

    names = sorted({name for p in pieces for name in p.flags})
    flags = {
        name: whole(
            [cut(p, np.broadcast_to(p.flags[name], p.rows.p.shape) & p.rows.live) for p in pieces]
        )
        for name in names
    }
    live = whole([cut(p, p.rows.live) for p in pieces])
    return _Pairs(every("value"), every("before"), every("by_p"), every("by_d"), live, flags)


def _dbias(
    inputs: Inputs, parts: Decomposition, model: ArithmeticModel, pieces: Sequence[_Piece]
) -> Bound:
    pairs = _pairs(parts, pieces, sink=False)
    return _reduced(pairs, model, inputs["bias"].shape, model.bias_format)


def _dsinks(
    inputs: Inputs, parts: Decomposition, model: ArithmeticModel, pieces: Sequence[_Piece]
) -> Bound:
    pairs = _pairs(parts, pieces, sink=True)
    heads = inputs["sinks"].shape[0]
    found = _reduced(pairs, model, (1, heads, 1))

    def flat(x: NDArray[Any]) -> NDArray[Any]:
        return x.reshape(heads)

    return Bound(
        flat(found.total),
        flat(found.total),
        flat(found.flagged),
        {name: flat(flag) for name, flag in found.flag_reasons.items()},
        {name: flat(part) for name, part in found.parts.items()},
    )


def _reduced(
    pairs: _Pairs, model: ArithmeticModel, shape: tuple[int, ...], name: str | None = None
) -> Bound:
    """dS summed over the axes along which a bias (or a sink) was broadcast; name: the format in
    which it is stored for that and added, if the model has one of its own."""
    full = pairs.value.shape
    aligned = (1,) * (len(full) - len(shape)) + tuple(shape)
    axes = tuple(i for i, (a, b) in enumerate(zip(aligned, full, strict=True)) if a == 1 and b != 1)

    def total(x: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(x.sum(axis=axes, keepdims=True).reshape(shape))

    def some(x: NDArray[Any]) -> NDArray[Any]:
        return x.any(axis=axes, keepdims=True).reshape(shape)

    terms = Terms(
        value=np.abs(total(pairs.value)),
        size=total(np.abs(pairs.value)),
        error=total(pairs.error),
        by_p=total(pairs.by_p),
        by_d=total(pairs.by_d),
    )
    count = total(pairs.live.astype(np.float64))
    length = math.prod(full[a] for a in axes)
    stored = replace(model, ds_format=name, ds_roundings=1) if name else model
    added = replace(model, softmax_format=name) if name else model
    found = summed(terms.stored(stored, count), added, count, length, scale=None, alone=True)
    return finished(found, model, {name: some(flag) for name, flag in pairs.flags.items()})
