"""What attention is made of, in float64 with proved errors: the quantities that error bounds need.

Bounds are functions of scores, of A = sum |q||k|, of probabilities, maxima and row sums.  They are
computed here once, so that no bound recomputes them, and none sees an output of a kernel.

Assumptions (the tests compare with the rigorous tier): float64 arithmetic rounds to nearest;
`numpy.matmul` adds products of float64 in any order, with or without fma, and without Strassen's
algorithm; `numpy.exp` and `numpy.tanh` err by at most 4 ulp.  Below, u = 2^-53.

Exact dot products.  With b = (53 - ceil(log2 d)) // 2, each row of Q and of K is written as a sum
of slices: multiples of a power of two w whose multipliers are integers below 2^b in magnitude
(`slices`).  A dot product of two slices is an integer below d 2^(2b) <= 2^53 times a power of two,
and so is every partial sum of it: the float64 product of the two matrices is exact.  The few exact
matrices are added in double-double; the roundings that this makes are observed, not estimated, so
that `dot_error` is 0 where 106 bits hold the sum - that is, for ordinary data.  It is at most
2^-90 A: the slices of one number x add up to 3.01 |x| in magnitude (the first that is not 0 is at
most 2 |x|, what it leaves at most |x|), so those of a dot product to 9.1 A; one addition drops at
most u (u + u) of that; binary32 has at most 13 slices: 169 * 18.2 u^2 < 2^-94.

Differences of scores.  Probabilities need s_j - s_r only, r being the key of the largest score.
The difference is formed before anything is rounded to float64, as tau (y_j - y_r) + (b_j - b_r),
so that its error is relative to the difference and not to the scores, however large they are.
Per operation the double-double error is below 8 u^2, and there are at most four in a chain:
together below 2^-100 (|tau (y_j - y_r)| + |b_j - b_r|).  A softcap is evaluated in float64:
argument 2 u, tanh 8 u, product u, and the condition number of tanh is at most 1: 2^-49 |t_j| for
each of the two keys; an error of tau y is damped by the slope of the cap.

Probabilities.  E = the largest error of a difference in the row, over the keys that are not
negligible (difference above -750).  exp(z_hi)(1 + z_lo) errs by 10 u, the sum of n such terms by
n u, the division by u; hence a relative error of p_j below expm1(2 E) + (n + 24) u, to which an
eighth is added for products of errors: `p_error`.  Beyond E = 2^-6 nothing is promised: +inf.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from references.enclosure import Array
from references.error_free import Words, exact_dot, negative, plus, slices, times, two_sum

Booleans = NDArray[np.bool_]

_CHUNK = 2**16  # scores treated at a time: the temporaries stay in the cache
_NEGLIGIBLE = -750.0  # exp of it is below 2^-1081
_SATURATED = 100.0  # tanh of it is 1 up to 2^-288


@dataclass(frozen=True)
class Decomposition:
    """
    The parts of one attention (or softmax) call, all float64 unless said otherwise.

    Shapes      [s] (batch, heads, n_q, n_k), [r] (batch, heads, n_q), [o] (batch, heads, n_q, d_v).
    Definition  The letters of `references`: y, A, t, s, M, l, p, O, LSE; tau is the scale.
                removed [s] bool: by mask, causal, window or a bias of -inf.
                visible [s] bool: the key takes part (not removed, and its score is not -inf).
                uncapped [s] = tau y, before the softcap.
                sink_score, sink_p [r]: None without sinks.
                empty [r] bool: no score at all is finite (l = 0, O = 0).
                undefined [r] bool: a NaN score; the row holds the numbers of an empty one.
                scale_words: the signed tau, hi + lo; scale: an upper bound of |tau|.
    Guarantee   dot          |error| <= 2^-53 |y| + dot_error,  dot_error [s] <= 2^-90 A
                abs_dot      A <= abs_dot <= (1 + (d + 3) 2^-52) A
                uncapped     |error| <= 2^-52 |t| + |tau| dot_error
                score        |error| <= 2^-52 |s| + 2^-100 (|t| + |bias|) + |tau| dot_error, and
                             with a softcap 2^-48 min(|tau y|, softcap) more; -inf where not visible
                maximum      the error of a score
                p, sink_p    |error| <= p_error p + 2^-1070,  p_error [r]
                row_sum      |error| <= p_error l   (the sink's term is part of l)
                output       |error| <= (p_error + (n_k + 4) 2^-53) magnitude + 2^-1070 sum_j |v_j|
                magnitude    sum_j p_j |v_j|; |error| <= the same
                lse          |error| <= 2^-52 (|M| + |LSE|) + 2 p_error + the error of a score
                p_error = 9/8 (expm1(2 E) + (n_k + 24) 2^-53), E as in the module's docstring:
                below 2^-40 for n_k <= 7000 unless a softcap of 2^8 or more, a sum of more than 106
                bits or a cancelling bias makes E large; +inf where nothing is promised.
    Special     A row with a score of +inf is decomposed as if the scores were 0 on these keys and
                the others removed.  Non-finite values v count as 0.
    Source      the module's docstring.
    """

    removed: Booleans
    visible: Booleans
    dot: Array
    dot_error: Array
    abs_dot: Array
    uncapped: Array
    score: Array
    p: Array
    maximum: Array
    row_sum: Array
    lse: Array
    p_error: Array
    empty: Booleans
    undefined: Booleans
    output: Array
    magnitude: Array
    sink_score: Array | None
    sink_p: Array | None
    scale: float
    scale_words: tuple[float, float]


def decompose(
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
    queries: tuple[int, int] | None = None,
) -> Decomposition:
    """
    Scores, probabilities and what else an error bound needs, for one attention call.

    Shapes      q: (batch, heads, n_q, d); k: (batch, kv_heads, n_k, d); v: (batch, kv_heads, n_k,
                d_v); mask, bias: broadcastable to (batch, heads, n_q, n_k); sinks: (heads,).
                queries=(start, stop): only these rows of n_q are computed and returned.
    Definition  see `Decomposition`.
    Guarantee   see `Decomposition`.
    Requires    finite values of magnitude in [2^-450, 2^450] or 0 (8-, 16- and 32-bit formats are
                inside), and scores below 2^900; the module's assumptions.
    Special     see `Decomposition`.
    Source      the module's docstring.
    """
    call = _Call(
        q, k, v, _scale_words(scale, q.shape[3]), causal, corner, window, mask, bias, softcap, sinks
    )
    parts = _blank(call, queries or (0, q.shape[2]))
    start, stop = queries or (0, q.shape[2])
    step = max(1, _CHUNK // max(1, k.shape[2]))
    for b, kv in np.ndindex(k.shape[:2]):
        shared = _keys(k[b, kv], v[b, kv])
        for h in range(kv * call.group, (kv + 1) * call.group):
            for first in range(start, stop, step):
                rows = slice(first, min(first + step, stop))
                _decompose_rows(parts, call, shared, (b, h), rows, start)
    return parts


def decompose_softmax(x: Array) -> Decomposition:
    """
    The same record for a softmax of rows: the entries are the scores, and there are no values.

    Shapes      x: (rows, n); the record has batch = heads = 1, n_q = rows, n_k = n, d_v = 0.
    Definition  y = t = s = x, A = 0, tau = 1.
    Guarantee   see `Decomposition`; the scores are exact.
    Requires    finite entries below 2^900 in magnitude.
    Special     see `Decomposition`.
    Source      the module's docstring.
    """
    rows, n = x.shape
    one = np.ones((1, 1, rows, 1))
    nothing = np.zeros((1, 1, n, 0))
    call = _Call(
        one, np.zeros((1, 1, n, 1)), nothing, (1.0, 0.0), False, "bottom-right", None, None,
        x[None, None], None, None,
    )  # fmt: skip
    parts = _blank(call, (0, rows))
    step = max(1, _CHUNK // max(1, n))
    shared = _keys(call.k[0, 0], nothing[0, 0])
    for first in range(0, rows, step):
        _decompose_rows(parts, call, shared, (0, 0), slice(first, min(first + step, rows)), 0)
    np.copyto(parts.dot, parts.score, where=parts.visible)
    np.copyto(parts.uncapped, parts.score, where=parts.visible)
    return parts


# --- the call ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Call:
    q: Array
    k: Array
    v: Array
    tau: tuple[float, float]
    causal: bool
    corner: str
    window: tuple[int, int] | None
    mask: Booleans | None
    bias: Array | None
    softcap: float | None
    sinks: Array | None

    def __post_init__(self) -> None:
        (batch, heads, _, d), (_, kv_heads, n_k, _) = self.q.shape, self.k.shape
        if self.k.shape != (batch, kv_heads, n_k, d) or self.v.shape[:3] != self.k.shape[:3]:
            raise ValueError(f"shapes differ: q {self.q.shape}, k {self.k.shape}, v {self.v.shape}")
        if kv_heads == 0 or heads % kv_heads:
            raise ValueError(f"{heads} heads are no multiple of {kv_heads} kv_heads")
        if self.corner not in ("bottom-right", "top-left"):
            raise ValueError(f"corner is {self.corner!r}: use 'bottom-right' or 'top-left'")
        if self.softcap is not None and not 0 < self.softcap < math.inf:
            raise ValueError(f"softcap is {self.softcap}: use a finite number above 0")
        if not math.isfinite(self.tau[0]):
            raise ValueError(f"scale is {self.tau[0]}: use a finite number")
        largest = math.prod(map(_largest_finite, (self.q, self.k))) * max(1.0, abs(self.tau[0]))
        if max(largest * d, _largest_finite(self.bias)) > 2.0**900:
            raise ValueError(f"scores may reach {largest * d}: they must stay below 2^900")

    @property
    def group(self) -> int:
        """Query heads per kv head."""
        return int(self.q.shape[1] // self.k.shape[1])

    def cut(
        self, x: NDArray[np.generic] | None, head: tuple[int, int], rows: slice
    ) -> Array | None:
        """The rows of one head of a mask or bias, in full shape."""
        if x is None:
            return None
        full = (*self.q.shape[:3], self.k.shape[2])
        return np.asarray(np.broadcast_to(x, full)[head][rows])

    def visible(self, head: tuple[int, int], rows: slice) -> Booleans:
        """(rows, n_k): not removed by mask, causal or window; bias is seen to elsewhere."""
        n_q, n_k = self.q.shape[2], self.k.shape[2]
        offset = 0 if self.corner == "top-left" else n_k - n_q
        distance = np.arange(n_k) - (np.arange(rows.start, rows.stop)[:, None] + offset)
        left, right = self.window or (-1, -1)
        lowest = -left if left >= 0 else -math.inf
        highest = 0 if self.causal else math.inf
        highest = min(highest, right) if right >= 0 else highest
        seen: Booleans = (distance >= lowest) & (distance <= highest)
        mask = self.cut(self.mask, head, rows)
        return seen if mask is None else seen & (mask != 0)


@dataclass(frozen=True)
class _Keys:
    """What the query heads of one kv head share."""

    k: Array  # as given, for the special values
    slices: list[Array]
    absolute: Array
    values: Array
    finite: bool


def _keys(k: Array, v: Array) -> _Keys:
    finite = np.where(np.isfinite(k), k, 0.0)
    values = np.where(np.isfinite(v), v, 0.0)
    return _Keys(k, slices(finite), np.abs(finite), values, bool(np.isfinite(k).all()))


def _blank(call: _Call, queries: tuple[int, int]) -> Decomposition:
    row = (*call.q.shape[:2], queries[1] - queries[0])
    pair, out = (*row, call.k.shape[2]), (*row, call.v.shape[3])
    sink = (lambda: np.zeros(row)) if call.sinks is not None else (lambda: None)
    return Decomposition(
        removed=np.zeros(pair, dtype=bool), visible=np.zeros(pair, dtype=bool),
        dot=np.zeros(pair), dot_error=np.zeros(pair),
        abs_dot=np.zeros(pair), uncapped=np.zeros(pair), score=np.zeros(pair), p=np.zeros(pair),
        maximum=np.zeros(row), row_sum=np.zeros(row), lse=np.zeros(row), p_error=np.zeros(row),
        empty=np.zeros(row, dtype=bool), undefined=np.zeros(row, dtype=bool),
        output=np.zeros(out), magnitude=np.zeros(out), sink_score=sink(), sink_p=sink(),
        scale=math.nextafter(abs(call.tau[0]), math.inf), scale_words=call.tau,
    )  # fmt: skip


def _scale_words(scale: float | None, d: int) -> tuple[float, float]:
    """The scale as hi + lo: the float itself, or 1/sqrt(d) up to 2^-106 of it, by integers."""
    if scale is not None:
        return float(scale), 0.0
    root = math.isqrt((1 << 400) // d)
    hi = root / (1 << 200)
    numerator, denominator = hi.as_integer_ratio()
    return hi, (root - numerator * ((1 << 200) // denominator)) / (1 << 200)


def _largest_finite(x: Array | None) -> float:
    return 0.0 if x is None else float(np.abs(x).max(initial=0.0, where=np.isfinite(x)))


# --- one block of rows ------------------------------------------------------------------------
#
# The sink is one more key: y = 0, bias = sink, no value.  Its column is always there, and simply
# not visible without sinks, so that no row is without columns.


@dataclass(frozen=True)
class _Scores:
    """The scores of a block of rows in a form from which differences are accurate."""

    visible: Booleans  # (rows, n_k + 1), like the others
    base: Words  # y, or the softcapped t
    factor: tuple[float, float] | None  # tau where base is y
    bias: Array | None
    error: Array  # of factor * base

    def score(self) -> Words:
        """factor * base + bias."""
        words = self.base if self.factor is None else times(self.base, self.factor)
        return words if self.bias is None else plus(words, (self.bias, np.zeros_like(self.bias)))

    def differences(self, reference: NDArray[np.intp]) -> tuple[Words, Array]:
        """s_j - s_r for the key r of each row, and a bound of its error."""
        at = reference[:, None]
        words = plus(self.base, negative([np.take_along_axis(w, at, 1) for w in self.base]))
        words = words if self.factor is None else times(words, self.factor)
        size = np.abs(words[0])
        if self.bias is not None:
            shifted = two_sum(self.bias, -np.take_along_axis(self.bias, at, 1))
            size = size + np.abs(shifted[0])
            words = plus(words, shifted)
        error = 2.0**-100 * size + self.error + np.take_along_axis(self.error, at, 1)
        np.put_along_axis(error, at, 0.0, 1)  # s_r - s_r is 0 without any error
        return words, error


def _decompose_rows(
    parts: Decomposition,
    call: _Call,
    keys: _Keys,
    head: tuple[int, int],
    rows: slice,
    start: int,
) -> None:
    q = call.q[head][rows]
    removed, bias = _removed(call, head, rows)
    kind = _kinds(call, q, keys, bias)
    sink = -math.inf if call.sinks is None else float(call.sinks[head[1]])
    visible, undefined, infinite = _visible(~removed, kind, sink)
    plain = visible[:, :-1] & ~infinite[:, None] & (kind.product == 0)
    dot, error = exact_dot(slices(np.where(np.isfinite(q), q, 0.0)), keys.slices)
    dot = np.where(plain, dot[0], 0.0), np.where(plain, dot[1], 0.0)
    uncapped = _uncapped(call, dot, kind, infinite)
    scores = _scores(call, dot, np.where(plain, error, 0.0), uncapped, visible)
    scores = _with_bias(scores, bias, sink, infinite)
    block = (*head, slice(rows.start - start, rows.stop - start))
    parts.dot[block], parts.uncapped[block] = dot[0], uncapped
    parts.dot_error[block] = np.where(plain, error, 0.0)
    absolute = np.abs(np.where(np.isfinite(q), q, 0.0)) @ keys.absolute.T
    parts.abs_dot[block] = np.where(plain, absolute * (1 + (q.shape[1] + 2) * 2.0**-52), 0.0)
    parts.removed[block] = removed
    parts.visible[block], parts.undefined[block] = visible[:, :-1], undefined
    _store_probabilities(parts, block, scores)
    _store_output(parts, block, keys.values)


def _removed(call: _Call, head: tuple[int, int], rows: slice) -> tuple[Booleans, Array | None]:
    removed = ~call.visible(head, rows)
    bias = call.cut(call.bias, head, rows)
    if bias is not None:
        removed |= bias == -np.inf
        bias = np.where(removed, 0.0, bias)
    return removed, bias


@dataclass(frozen=True)
class _Kinds:
    """Of tau y and of s: 0 where it is finite, else the infinity or NaN that it is."""

    product: Array
    score: Array


def _kinds(call: _Call, q: Array, keys: _Keys, bias: Array | None) -> _Kinds:
    if keys.finite and np.isfinite(q).all() and (bias is None or np.isfinite(bias).all()):
        nothing = np.zeros((1, 1))
        return _Kinds(nothing, nothing)
    with np.errstate(invalid="ignore"):
        # signs multiply and add like the numbers, as far as infinities and NaN are concerned
        y = _signs(q) @ _signs(keys.k).T
        product = np.where(np.isfinite(y), 0.0, y * call.tau[0])
        score = product if call.softcap is None else np.where(np.isnan(product), np.nan, 0.0)
        return _Kinds(product, score if bias is None else score + _special(bias))


def _signs(x: Array) -> Array:
    return np.where(np.isfinite(x), np.sign(x), x)


def _special(x: Array) -> Array:
    return np.where(np.isfinite(x), 0.0, x)


def _visible(seen: Booleans, kind: _Kinds, sink: float) -> tuple[Booleans, Booleans, Booleans]:
    """Keys (and sink) that take part; rows with a NaN; rows with a +inf, where only that counts."""
    score = np.broadcast_to(kind.score, seen.shape)
    score = np.concatenate([score, np.full((len(seen), 1), _special(np.array(sink)))], axis=1)
    seen = np.concatenate([seen, np.ones((len(seen), 1), dtype=bool)], axis=1)
    undefined: Booleans = np.any(seen & np.isnan(score), axis=1)
    infinite: Booleans = ~undefined & np.any(seen & (score == np.inf), axis=1)
    visible = seen & np.where(infinite[:, None], score == np.inf, score != -np.inf)
    return visible & ~undefined[:, None], undefined, infinite


def _uncapped(call: _Call, dot: Words, kind: _Kinds, infinite: Booleans) -> Array:
    product = times(dot, call.tau)[0]
    if call.softcap is None or not kind.product.any():
        return product
    saturated = np.sign(np.where(np.isnan(kind.product), 0.0, kind.product))
    saturated = np.where(infinite[:, None], 0.0, saturated * _SATURATED * call.softcap)
    return np.where(saturated != 0, saturated, product)


def _scores(call: _Call, dot: Words, error: Array, uncapped: Array, visible: Booleans) -> _Scores:
    error = abs(call.tau[0]) * (1 + 2.0**-40) * error
    if call.softcap is None:
        return _Scores(visible, (_padded(dot[0]), _padded(dot[1])), call.tau, None, _padded(error))
    capped = call.softcap * np.tanh(uncapped / call.softcap)
    # the slope of the cap near t is sech(t/c)^2 <= 4 exp(-2 |t|/c): saturation hides errors of t
    nearest = np.maximum(np.abs(uncapped) - error, 0.0) / call.softcap
    error = error * np.minimum(1.0, 4 * np.exp(-2 * nearest)) + 2.0**-49 * np.abs(capped)
    base = _padded(capped)
    return _Scores(visible, (base, np.zeros_like(base)), None, None, _padded(error))


def _padded(x: Array, last: float = 0.0) -> Array:
    return np.concatenate([x, np.full((len(x), 1), last)], axis=1)


def _with_bias(scores: _Scores, bias: Array | None, sink: float, infinite: Booleans) -> _Scores:
    if bias is None and sink == -math.inf:
        return scores
    bias = np.zeros(scores.visible[:, :-1].shape) if bias is None else bias
    usable = scores.visible & ~infinite[:, None]
    bias = np.where(usable, _padded(bias, sink), 0.0)
    return replace(scores, bias=bias)


def _store_probabilities(
    parts: Decomposition, block: tuple[int | slice, ...], scores: _Scores
) -> None:
    visible = scores.visible
    score = scores.score()
    reference = _largest(score, visible)
    difference, error = scores.differences(reference)
    if np.any((difference[0] > 0) & visible):  # scores too large for score() to order them
        reference = _largest(difference, visible)
        difference, error = scores.differences(reference)
    z = np.minimum(np.where(visible, difference[0], -np.inf), 0.5)  # more is error: p_error = inf
    weight = np.exp(z) * (1 + np.where(z > _NEGLIGIBLE, difference[1], 0.0))
    row_sum = weight.sum(axis=1)
    p = weight / np.where(row_sum > 0, row_sum, 1.0)[:, None]
    maximum = np.take_along_axis(score[0], reference[:, None], 1)[:, 0]
    maximum = np.where(row_sum > 0, maximum, -np.inf)
    parts.p[block], parts.row_sum[block], parts.maximum[block] = p[:, :-1], row_sum, maximum
    parts.score[block] = np.where(visible, score[0], -np.inf)[:, :-1]
    parts.lse[block] = maximum + np.log(np.where(row_sum > 0, row_sum, 1.0))
    parts.empty[block] = (row_sum == 0) & ~parts.undefined[block]
    parts.p_error[block] = _p_error(np.where(visible, difference[0], -np.inf), error)
    if parts.sink_score is not None and parts.sink_p is not None:
        parts.sink_score[block] = np.where(visible, score[0], -np.inf)[:, -1]
        parts.sink_p[block] = p[:, -1]


def _largest(score: Words, visible: Booleans) -> NDArray[np.intp]:
    """The visible key with the largest hi + lo in each row."""
    high = np.where(visible, score[0], -np.inf)
    low = np.where(high == high.max(axis=1, keepdims=True), score[1], -np.inf)
    return np.asarray(low.argmax(axis=1))


def _p_error(z: Array, error: Array) -> Array:
    """9/8 (expm1(2 E) + (n + 24) u), or +inf beyond E = 2^-6."""
    worst = np.where(z + error > _NEGLIGIBLE, error, 0.0).max(axis=1)
    small = np.minimum(worst, 2.0**-6)
    bound = 1.125 * (np.expm1(2 * small) + (z.shape[1] + 23) * 2.0**-53)
    return np.where(worst <= 2.0**-6, bound, np.inf)


def _store_output(parts: Decomposition, block: tuple[int | slice, ...], values: Array) -> None:
    p = parts.p[block]
    parts.output[block] = p @ values
    parts.magnitude[block] = p @ np.abs(values)
