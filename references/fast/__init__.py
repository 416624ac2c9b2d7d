"""Certified truth at the speed of a float64 matrix product.

Double-double on float64 hardware: scores and averages by matrix products of slices that are exact
in float64, exp by table and polynomial, a proved radius for every element.  The proof is
docs/theory/fast-oracle.md.
A row that does not reach the radius asked for is made again with one more slice, then by Arb; the
code in `tier` says which.  What Arb cannot reach either has radius inf.

The arithmetic that the proof needs is tried at the first use: `available()` says what is missing.
Importing this module loads neither numba nor flint.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from references.enclosure import Array, AttentionGradients, AttentionTruth, Enclosure
    from references.fast.inputs import Call

__all__ = [
    "RADIUS",
    "attention",
    "attention_gradients",
    "available",
    "log_softmax",
    "log_softmax_gradient",
    "logsumexp",
    "softmax",
    "softmax_gradient",
]

RADIUS = 2.0**-80
LARGE = 2**24  # scores from which a CUDA device is worth its transfers


@cache
def available() -> str | None:
    """
    Why this tier cannot be used on this machine, or None.

    Shapes      none.
    Definition  numba and threadpoolctl import; FMA, two_sum, rounding to nearest, gradual underflow
                and exact float64 matrix products behave as docs/theory/fast-oracle.md assumes.
    Guarantee   tried, not proved: a fixed set of sums and products with known results.
    """
    try:
        _engine()
    except ImportError as error:
        return f"not installed: {error.name}"
    from references.fast import assumptions, threads

    with threads.one_blas_thread():
        return assumptions.arithmetic() or assumptions.products()


@cache
def _engine() -> tuple[ModuleType, ModuleType]:
    """The compiled parts; the first call of an installation compiles them."""
    from references.fast import compiled

    with compiled.cache():
        with compiled.beside("weights"):
            from references.fast import assumptions, inputs, quotient
        from references.fast import heads
    del assumptions, quotient
    return heads, inputs


@cache
def _row_engine() -> ModuleType:
    """The part that only functions of rows need."""
    from references.fast import compiled

    with compiled.cache():
        from references.fast import rows
    return rows


def _ready() -> tuple[ModuleType, ModuleType]:
    """The compiled parts, after a look at the state of this thread.

    Raises      RuntimeError where the arithmetic is not what the proof needs.
    """
    reason = available()
    if reason is None:
        from references.fast.assumptions import arithmetic

        reason = arithmetic()
    if reason is not None:
        raise RuntimeError(f"references.fast is not available: {reason}; use references.arb")
    return _engine()


def _place(asked: str | None, scores: int) -> str | None:
    """The device of a call, None for the host.

    Raises      RuntimeError where the device that was asked for cannot carry the proof.
    """
    if asked is None and scores < LARGE:
        return None
    try:
        import torch

        from references.fast.device_assumptions import unusable
    except ImportError:
        if asked is None:
            return None
        raise RuntimeError(f"device {asked!r} needs torch, which is not installed") from None
    if asked is None:
        return "cuda" if torch.cuda.is_available() and unusable("cuda") is None else None
    reason = unusable(asked)
    if reason is not None:
        raise RuntimeError(f"device {asked!r} cannot be used: {reason}")
    return asked


def _rows(name: str, x: Array, radius: float) -> Enclosure:
    import numpy as np

    _, inputs = _ready()
    rows = _row_engine()
    values = inputs.require_binary32("x", x).values
    with np.errstate(all="ignore"):
        found: Enclosure = rows.enclose(rows.RULES[name], values, inputs.require_radius(radius))
    return found


def softmax(x: Array, *, radius: float = RADIUS) -> Enclosure:
    """
    Softmax along the last axis.

    Shapes      x: (rows, n); returns (rows, n).
    Definition  p_i = exp(x_i - M) / sum_j exp(x_j - M), M = max_j x_j.
    Guarantee   |p_i - (hi + lo)| <= its radius, which is <= radius max(p_i, 2^-340) or inf.
    Requires    binary32 values in float64.  Raises ValueError for others.
    Special     as in `references`.
    Source      docs/theory/fast-oracle.md, part 7.
    """
    return _rows("softmax", x, radius)


def log_softmax(x: Array, *, radius: float = RADIUS) -> Enclosure:
    """
    Logarithm of the softmax along the last axis.

    Shapes      x: (rows, n); returns (rows, n).
    Definition  x_i - M - ln sum_j exp(x_j - M), M = max_j x_j.
    Guarantee   |value - (hi + lo)| <= its radius, which is <= radius max(1, |value|) or inf.
    Requires    binary32 values in float64.  Raises ValueError for others.
    Special     as in `references`.
    Source      docs/theory/fast-oracle.md, part 7.
    """
    return _rows("log_softmax", x, radius)


def logsumexp(x: Array, *, radius: float = RADIUS) -> Enclosure:
    """
    Log-sum-exp along the last axis (natural logarithm).

    Shapes      x: (rows, n); returns (rows,).
    Definition  M + ln sum_j exp(x_j - M), M = max_j x_j.
    Guarantee   |value - (hi + lo)| <= its radius, which is <= radius max(1, |value|) or inf.
    Requires    binary32 values in float64.  Raises ValueError for others.
    Special     as in `references`.
    Source      docs/theory/fast-oracle.md, part 7.
    """
    return _rows("logsumexp", x, radius)


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
    radius: float = RADIUS,
    threads: int = 1,
    device: str | None = None,
) -> AttentionTruth:
    """
    Attention as `references` defines it.

    Shapes      q: (batch, heads, n_q, d); k: (batch, kv_heads, n_k, d); v: (batch, kv_heads,
                n_k, d_v); mask, bias: broadcastable to (batch, heads, n_q, n_k); sinks: (heads,).
                Returns output (batch, heads, n_q, d_v), lse (batch, heads, n_q).
    Definition  O and LSE of `references`; magnitude A = sum_j p_j |v_j|.
    Guarantee   |O - (hi + lo)| <= its radius, which is <= radius A or inf; |LSE - (hi + lo)| <= its
                radius, which is <= radius max(1, |LSE|) or inf.  The relative error of magnitude
                is below 2^-20.  The same bits for any number of threads.
    Requires    binary32 values in float64 (ValueError for others); scale finite; softcap finite
                and above 0.
    Device      a torch device such as 'cuda' that makes products, exponentials and sums; None: the
                host, and a CUDA device for calls of at least LARGE scores where there is one.
    Special     as in `references`.
    Source      docs/theory/fast-oracle.md.
    """
    import numpy as np

    engine, inputs = _ready()
    place = _place(device, q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2])
    call = _call(q, k, v, scale, causal, corner, window, mask, bias, softcap, sinks)
    with np.errstate(all="ignore"):
        found: AttentionTruth = engine.attention(
            call, inputs.require_radius(radius), threads, place
        )
    return found


def _call(
    q: Array,
    k: Array,
    v: Array,
    scale: float | None,
    causal: bool,
    corner: str,
    window: tuple[int, int] | None,
    mask: NDArray[np.bool_] | None,
    bias: Array | None,
    softcap: float | None,
    sinks: Array | None,
) -> Call:
    """The arguments, checked."""
    _, inputs = _engine()
    tensors = [inputs.require_binary32(name, x) for name, x in (("q", q), ("k", k), ("v", v))]
    call: Call = inputs.Call(
        *(tensor.values for tensor in tensors), tuple(tensor.finite for tensor in tensors),
        scale, causal, corner, window, mask,
        None if bias is None else inputs.require_binary32("bias", bias).values, softcap,
        None if sinks is None else inputs.require_binary32("sinks", sinks).values,
    )  # fmt: skip
    return call


@cache
def _gradient_engine() -> ModuleType:
    """The part that only gradients need."""
    from references.fast import compiled

    with compiled.cache():
        from references.fast import gradients
    return gradients


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
    radius: float = RADIUS,
) -> AttentionGradients:
    """
    Gradients of attention as `references` defines them.

    Shapes      q, k, v and options: those of `attention`; do: (batch, heads, n_q, d_v);
                dlse: (batch, heads, n_q), None for zeros.  Returns the shapes of q, k, v, bias,
                sinks.
    Definition  dQ, dK, dV, dbias, dsinks and their magnitudes of `references`.
    Guarantee   |value - (hi + lo)| <= its radius, which is <= radius magnitude + 2^-400 + missed,
                or inf; missed is 0 unless a row sees a key whose p is below 2^-430 (which is taken
                as 0), and then at most n_k 2^-400 of what the gradient could be if every p were 1.
                The relative error of magnitude is below 2^-20, beside missed.
    Requires    binary32 values in float64 (ValueError for others); scale finite; softcap finite
                and above 0.
    Special     as in `references`; a call that holds NaN or an infinity is made by Arb.
    Source      docs/theory/fast-oracle.md, parts 11 and 12.
    """
    import numpy as np

    _, inputs = _ready()
    engine = _gradient_engine()
    call = _call(q, k, v, scale, causal, corner, window, mask, bias, softcap, sinks)
    if do.shape != (*q.shape[:3], v.shape[3]):
        raise ValueError(f"do has shape {do.shape}: use that of the output, {q.shape[:3]} and d_v")
    if dlse is not None and dlse.shape != q.shape[:3]:
        raise ValueError(f"dlse has shape {dlse.shape}: use that of the LSE, {q.shape[:3]}")
    upstream = np.zeros(q.shape[:3]) if dlse is None else dlse
    work = engine.Backward(
        call, inputs.require_binary32("do", do).values,
        inputs.require_binary32("dlse", upstream).values, inputs.require_radius(radius),
    )  # fmt: skip
    with np.errstate(all="ignore"):
        found: AttentionGradients = engine.attention_gradients(work)
    return found


@cache
def _row_gradient_engine() -> ModuleType:
    """The part that only gradients of rows need."""
    from references.fast import compiled

    with compiled.cache():
        from references.fast import row_gradients
    return row_gradients


def _row_gradients(name: str, x: Array, dy: Array, radius: float) -> Enclosure:
    import numpy as np

    _, inputs = _ready()
    engine = _row_gradient_engine()
    if x.ndim != 2 or x.shape != dy.shape:
        raise ValueError(f"x has shape {x.shape}, dy {dy.shape}: use one shape (rows, n)")
    tensors = (inputs.require_binary32(which, y).values for which, y in (("x", x), ("dy", dy)))
    with np.errstate(all="ignore"):
        found: Enclosure = engine.enclose(
            engine.RULES[name], *tensors, inputs.require_radius(radius)
        )
    return found


def softmax_gradient(x: Array, dy: Array, *, radius: float = RADIUS) -> Enclosure:
    """
    dX of softmax along the last axis.

    Shapes      x, dy: (rows, n); returns (rows, n).
    Definition  dx_i = y_i (dy_i - sum_j y_j dy_j), y = softmax(x).
    Guarantee   |dx - (hi + lo)| <= its radius, which is <= radius max(y_i, 2^-340)
                (|dy_i| + sum_j y_j |dy_j|), or (by Arb) that of `references.arb`, or inf.
    Requires    binary32 values in float64.  Raises ValueError for others.
    Special     as in `references`.
    Source      docs/theory/fast-oracle.md, part 13.
    """
    return _row_gradients("softmax_gradient", x, dy, radius)


def log_softmax_gradient(x: Array, dy: Array, *, radius: float = RADIUS) -> Enclosure:
    """
    dX of log_softmax along the last axis.

    Shapes      x, dy: (rows, n); returns (rows, n).
    Definition  dx_i = dy_i - y_i sum_j dy_j, y = softmax(x).
    Guarantee   |dx - (hi + lo)| <= its radius, which is <= radius (|dy_i| + max(y_i, 2^-340)
                |sum_j dy_j|), or (by Arb) that of `references.arb`, or inf.
    Requires    binary32 values in float64.  Raises ValueError for others.
    Special     as in `references`.
    Source      docs/theory/fast-oracle.md, part 13.
    """
    return _row_gradients("log_softmax_gradient", x, dy, radius)
