"""The truth: certified enclosures of softmax and attention, and nothing else.

Inclusion principle.  Inputs are the exact real numbers that their bits denote (float64 arrays
that hold 8-, 16- or 32-bit values exactly).  Every function returns an `Enclosure`: the exact
result r of the definition below satisfies |r - (hi + lo)| <= radius, elementwise.  A radius of
+inf means that nothing is known.  Later docstrings give definitions and do not repeat this.

Axes.  softmax, log_softmax, logsumexp: x (rows, n), along the last axis.
attention: q (batch, heads, n_q, d), k (batch, kv_heads, n_k, d), v (batch, kv_heads, n_k, d_v);
head h reads kv head h // (heads / kv_heads).

Definition of attention, for the query i and the keys j that it sees:
    y_j = sum_l q_il k_jl            A_j = sum_l |q_il| |k_jl|
    t_j = scale y_j                  (scale None: exactly 1/sqrt(d); else the float's real number)
    t_j = softcap tanh(t_j/softcap)  if a softcap is given
    s_j = t_j + bias_j               (bias never scaled)
    M = max s_j,  e_j = exp(s_j - M),  l = sum e_j,  p_j = e_j / l
    O = sum p_j v_j,  LSE = M + ln l
`sinks` (heads,): one more score per row without a value; it joins M, l and LSE.
A key is removed by mask False, bias -inf, causal (corner 'bottom-right': j <= i + n_k - n_q;
'top-left': j <= i) and window (left, right): i' - left <= j <= i' + right, where
i' = i + n_k - n_q (with corner 'top-left' i' = i) and -1 means no limit.

Gradients, for dO (the shape of O) and dLSE (that of LSE; 0 where none is given):
    dP_ij = sum_c dO_ic v_jc         D_i = sum_j p_ij dP_ij = sum_c dO_ic O_ic
    dS_ij = p_ij (dP_ij - D_i + dLSE_i)    dT_ij = dS_ij (1 - (t_ij/softcap)^2)  (t after the cap)
    dq_i = scale sum_j dT_ij k_j     dk_j = scale sum_i dT_ij q_i    dv_j = sum_i p_ij dO_i
    dbias_ij = dS_ij                 dsink = sum_i p_sink,i (dLSE_i - D_i)
dk and dv are summed over the query heads of a kv head, dbias over the axes along which the bias was
broadcast, dsinks over batch and queries.  A removed key has p = 0.  Their magnitudes are the sums
of absolute terms, with F_ij = p_ij (|dP_ij| + sum_j p_ij |dP_ij| + |dLSE_i|) in the place of dT and
dS: |scale| sum_j F_ij |k_j|, |scale| sum_i F_ij |q_i|, sum_i p_ij |dO_i|, sum F_ij, and
sum_i p_sink,i (sum_j p_ij |dP_ij| + |dLSE_i|).
softmax: dx_i = y_i (dy_i - sum_j y_j dy_j); log_softmax: dx_i = dy_i - y_i sum_j dy_j, y = softmax.

Special values.  A removed key contributes nothing, whatever its k, v hold.  A row without keys:
O = 0, LSE = -inf (with a finite sink the row is not empty: O = 0, LSE = sink).  A NaN score (NaN
in q or in a visible k, inf - inf, 0 inf, NaN bias) makes the whole row NaN.  A score of +inf:
NaN, or the limit (uniform over the +inf keys): classes FINITE | NAN with the limit enclosed; LSE
POSITIVE_INFINITY | NAN.  A score of -inf (not a removed key) has p = 0: the key is dropped, but a
non-finite v there may also show as NaN (classes gain NAN).  All scores -inf by value: O
FINITE(0) | NAN, LSE NEGATIVE_INFINITY | NAN.  A visible v that is NaN makes its column NaN; +inf
(-inf): POSITIVE_INFINITY | NAN (NEGATIVE_INFINITY | NAN); both signs: NAN.  softmax of a row that
is all -inf: NAN; of a row with NaN: NAN; with +inf: FINITE | NAN with the limit.  logsumexp of an
all -inf or an empty row: NEGATIVE_INFINITY; with +inf (and no NaN): POSITIVE_INFINITY | NAN.
log_softmax of a -inf entry: NEGATIVE_INFINITY; with a +inf in its row: the limit on the +inf
entries (FINITE | NAN), NEGATIVE_INFINITY | NAN on the others.  A NaN in q does not touch a row
without keys; a NaN sink makes its rows NaN; a sink of +inf takes its share of the limit; of -inf
counts as none, but then an otherwise empty row is FINITE(0) | NAN.  An infinite score under a
softcap is +-softcap.  scale must be finite, softcap above 0.

Special values of gradients.  A pair (i, j) that is removed contributes nothing, and a row without
keys adds nothing to any gradient (but a finite sink's term).  A row with a NaN score: NAN in dq_i,
in dk_j, dv_j, dbias_ij of the keys that it sees, and in its dsink.  A row with an infinite score or
factor q, k, bias (visible) or a sink of +inf: ANYTHING in these places (radius +inf): infinity is
no place to differentiate.  Else, a NaN (an infinity) in dO_i, dLSE_i or a visible v: NAN
(NON_FINITE: some infinity or NaN must show) in dq_i, dk_j, dbias_ij, dsink; in dv only the columns
of dO_i that hold it.  A row without keys whose dO, dLSE or sink is not finite: ANYTHING in dq_i and
dsink.  In a sum over rows NAN wins over ANYTHING, that over NON_FINITE.  Beside keys a sink of -inf
counts as none.  softmax and log_softmax: a row of x with NaN or all -inf: NAN; with +inf: ANYTHING;
an entry -inf has y = 0: dx = 0, or dy for log_softmax; a NaN (infinity) in dy gives NAN
(NON_FINITE) where y > 0 and ANYTHING where y = 0 (in softmax ANYTHING everywhere if it stands where
y = 0).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

    from references.enclosure import Array, AttentionGradients, AttentionTruth, Enclosure

__all__ = [
    "attention",
    "attention_gradients",
    "log_softmax",
    "log_softmax_gradient",
    "logsumexp",
    "route",
    "softmax",
    "softmax_gradient",
]

ROUTES = ("fast", "arb", "exact")


def route(name: str = "fast") -> tuple[str, ModuleType]:
    """The tier of that name, or the next rigorous one where its assumptions fail on this machine.

    Shapes      returns (name, module); the module has softmax, log_softmax, logsumexp, attention,
                and attention_gradients, softmax_gradient, log_softmax_gradient.
    Raises      ValueError for an unknown name.
    """
    import importlib

    if name not in ROUTES:
        raise ValueError(f"unknown route {name!r}: use one of {', '.join(ROUTES)}")
    module = importlib.import_module(f"references.{name}")
    if name == "fast" and module.available() is not None:
        return route("arb")
    return name, module


def softmax(x: Array, *, tier: str = "fast") -> Enclosure:
    """Softmax along the last axis, as defined above. Shapes x (rows, n) to (rows, n)."""
    return _call(tier, "softmax", x)


def log_softmax(x: Array, *, tier: str = "fast") -> Enclosure:
    """Logarithm of softmax along the last axis. Shapes x (rows, n) to (rows, n)."""
    return _call(tier, "log_softmax", x)


def logsumexp(x: Array, *, tier: str = "fast") -> Enclosure:
    """ln sum_j exp x_j along the last axis. Shapes x (rows, n) to (rows,)."""
    return _call(tier, "logsumexp", x)


def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    tier: str = "fast",
    rows: Iterable[tuple[int, int, int]] | None = None,
    **options: Any,
) -> AttentionTruth:
    """Scaled dot-product attention with its log-sum-exp, as defined above.

    Shapes      q (batch, heads, n_q, d), k and v (batch, kv_heads, n_k, d and d_v); returns output
                (batch, heads, n_q, d_v), lse (batch, heads, n_q), magnitude.
    Options     scale, causal, corner, window, mask, bias, softcap, sinks.
    Requires    `rows` (only these are computed) with the tiers arb and exact only.
    """
    name, module = route(tier)
    if rows is not None:
        options["rows"] = rows
        name, module = (name, module) if name != "fast" else route("arb")
    truth: AttentionTruth = module.attention(q, k, v, **options)
    return truth


def attention_gradients(
    q: Array, k: Array, v: Array, do: Array, *, tier: str = "fast", **options: Any
) -> AttentionGradients:
    """Gradients of attention, as defined above, for dO = do.

    Shapes      q, k, v as in `attention`; do (batch, heads, n_q, d_v); returns dq, dk, dv (the
                shapes of q, k, v), dbias, dsinks (None without bias, sinks), and magnitudes.
    Options     dlse (batch, heads, n_q), and those of `attention` but `rows`.
    """
    gradients: AttentionGradients = route(tier)[1].attention_gradients(q, k, v, do, **options)
    return gradients


def softmax_gradient(x: Array, dy: Array, *, tier: str = "fast") -> Enclosure:
    """dX of softmax along the last axis, for dY. Shapes x, dy (rows, n) to (rows, n)."""
    gradient: Enclosure = route(tier)[1].softmax_gradient(x, dy)
    return gradient


def log_softmax_gradient(x: Array, dy: Array, *, tier: str = "fast") -> Enclosure:
    """dX of log_softmax along the last axis, for dY. Shapes x, dy (rows, n) to (rows, n)."""
    gradient: Enclosure = route(tier)[1].log_softmax_gradient(x, dy)
    return gradient


def _call(tier: str, function: str, x: Array) -> Enclosure:
    _, module = route(tier)
    enclosure: Enclosure = getattr(module, function)(x)
    return enclosure
