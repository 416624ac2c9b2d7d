"""Attention in arbitrary precision, one query row at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable

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
from references.exact.integers import weighted_sums
from references.exact.precision import TARGET_BITS, Context, Real, working_bits, working_precision
from references.exact.scores import (
    Call,
    Head,
    Weights,
    all_finite,
    exponentials,
    row_scores,
    score_exponent,
    size_of,
)
from references.exact.words import put, put_special, unknown, up, upper

Triple = tuple[int, int, int]  # batch, head, query


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
    call = Call(q, k, v, scale, causal, corner, window, mask, bias, softcap, sinks, extra_bits)
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


def _row(truth: AttentionTruth, head: Head, place: int, row: Triple) -> None:
    keys = head.keys(row[2])
    bias = head.bias_row(row[2])
    exponent = score_exponent(head, place, keys, bias)
    target = TARGET_BITS + head.call.extra_bits
    with working_precision(working_bits(exponent, len(keys) + 1, target)) as mp:
        scores = row_scores(mp, head, place, keys, bias)
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
            weights = exponentials(mp, scores, head.sink, size_of(exponent))
            total = _output(mp, truth, head, row, keys, weights, target, FINITE)
            lse = weights.shift + mp.log(total)
            put(truth.lse, row, lse, _lse_radius(weights, target))


def _limit(mp: Context, scores: dict[int, Real], sink: float | None) -> Weights:
    """Equal weights on the scores of +inf."""
    weights = {j: mp.one for j, s in scores.items() if s == mp.inf}
    extra = mp.one if sink == math.inf else mp.zero
    return Weights(weights, extra, mp.inf, 0.0, len(weights) + (sink == math.inf))


def _output(
    mp: Context,
    truth: AttentionTruth,
    head: Head,
    row: Triple,
    keys: list[int],
    found: Weights,
    target: int,
    classes: int,
) -> Real:
    """Store the output and the magnitude of one row; returns the row sum l."""
    used = list(found.weights)
    sums = weighted_sums(mp, list(found.weights.values()), head.columns[used])
    total = sums[-1] + found.sink
    d_v = head.v.shape[1]
    special = {} if all_finite(head.v) else _special_columns(head.v, keys, set(used))
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


def _lse_radius(weights: Weights, target: int) -> float:
    factor = min(1.0, weights.size) if weights.terms == 1 else 1.0
    return math.nextafter(math.ldexp(factor, -target), math.inf) if factor else 0.0
