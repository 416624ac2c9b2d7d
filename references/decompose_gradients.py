"""What the gradients of attention are made of, in float64 with proved errors.

Assumptions and names are those of `references.decompose`; u = 2^-53, pi = p_error of a row (below
2^-4, or +inf and then every error of the row is +inf), hats are computed values, and a factor of
9/8 covers products of errors and the rounding of the bounds.

    dP      exact slices, as for scores: u |dP| + dp_error, dp_error <= 2^-90 abs_dp
    D       sum p^ dP^: pi + 2^-1070 for p^, u for dP^, n_k u for the sum:
            mean_error = 9/8 ((pi + (n_k + 3) u) sum p^ |dP^| + sum p^ dp_error)
            + 2^-1069 sum abs_dp
    g       dP - D + dLSE, two additions, each of at most 2 u (|dP^| + |D^| + |dLSE|):
            difference_error = 9/8 (dp_error + mean_error + 4 u (|dP^| + |D^| + |dLSE|))
    dS      p g: ds_error = 9/8 ((9/8 pi + 2 u) p^ |g^| + 9/8 p^ difference_error)
            + 2^-1069 (|g^| + difference_error), since p <= p^ / (1 - pi) + 2^-1069
    slope   1 - tanh(z)^2 = 4 w / (1 + w)^2, w = exp(-2 |z|), z = t / softcap before the cap:
            z has 3 u of itself and |tau| dot_error / softcap; |z slope'(z)| <= 1, |slope'| <= 1;
            exp 8 u, the rest 6 u:  slope_error = 20 u + 9/8 |tau| dot_error / softcap
    dT      dS slope, slope <= 1: dt_error = 9/8 (ds_error + |dS^| (slope_error + u))
    dQ      |tau| times: sum dt_error |k|, (n_k + 4) u sum |dT^| |k|; likewise the other sums over
            keys, over rows, over broadcast axes.
    A product that underflows loses at most 2^-1075: 2^-1073 is added for each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from references.decompose import Decomposition, decompose
from references.enclosure import Array
from references.error_free import exact_dot, slices

Booleans = NDArray[np.bool_]

_U = 2.0**-53
_MORE = 1.125  # products of errors, and the rounding of a bound
_TINY = 2.0**-1069
_LEAST = 2.0**-1073  # what a product loses below the normal range
_CHUNK = 2**16  # pairs treated at a time


@dataclass(frozen=True)
class Sum:
    """A gradient: value with its error, and what bounds of accumulations need.

    Shapes      all that of the tensor.
    Guarantee   |exact - value| <= error;  absolute >= the sum of the absolute exact terms
                (scale and tensor included), above it by a few error only.
    """

    value: Array
    error: Array
    absolute: Array


@dataclass(frozen=True)
class GradientDecomposition:
    """
    The parts of one backward call, all float64.

    Shapes      [s] (batch, heads, n_q, n_k), [r] (batch, heads, n_q).
    Definition  The letters of `references`.
                forward: the parts of the forward pass.
                dp [s], abs_dp [s] = sum_c |dO_c| |v_c|, for every pair, removed ones included.
                mean [r] = D.  difference [s] = dP - D + dLSE.  ds, dt [s], 0 where not visible.
                slope [s] = 1 - tanh^2, 1 without a softcap.
                dq, dk, dv, dbias, dsinks: `Sum`s (absolute terms: |scale dT k|, |scale dT q|,
                |p dO|, |dS|, |p_sink (dLSE - D)|); None without bias, sinks.
    Guarantee   |dp - exact| <= 2^-53 |dp| + dp_error;  abs_dp is above the exact sum by at most
                (d_v + 3) 2^-52 of it;  mean, difference, ds, slope, dt: |value - exact| <= the
                error of that name (mean_error [r], others [s]).
    Special     NaN and infinities count as 0; rows that are `undefined` have p = 0; errors are
                +inf where p_error is.
    Source      the module's docstring.
    """

    forward: Decomposition
    dp: Array
    dp_error: Array
    abs_dp: Array
    mean: Array
    mean_error: Array
    difference: Array
    difference_error: Array
    ds: Array
    ds_error: Array
    slope: Array | None
    slope_error: Array | None
    dt: Array
    dt_error: Array
    dq: Sum
    dk: Sum
    dv: Sum
    dbias: Sum | None
    dsinks: Sum | None


def decompose_gradients(
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
    queries: tuple[int, int] | None = None,
    forward: Decomposition | None = None,
) -> GradientDecomposition:
    """
    dP, D, dS and what else a bound of gradients needs, for one attention call.

    Shapes      those of `decompose`; do (batch, heads, n_q, d_v), dlse (batch, heads, n_q).
                queries=(start, stop): only these rows of n_q; dk, dv, dbias and dsinks are then
                the sums over these rows.  forward: `decompose` of the same arguments, if at hand.
    Definition  see `GradientDecomposition`.
    Guarantee   see `GradientDecomposition`.
    Requires    what `decompose` does, of do and dlse too.
    Special     see `GradientDecomposition`.
    Source      the module's docstring.
    """
    if do.shape != (*q.shape[:3], v.shape[3]):
        raise ValueError(f"do has shape {do.shape}: use that of the output, {q.shape[:3]} and d_v")
    if dlse is not None and dlse.shape != q.shape[:3]:
        raise ValueError(f"dlse has shape {dlse.shape}: use that of the LSE, {q.shape[:3]}")
    if forward is None:
        forward = decompose(
            q, k, v, scale=scale, causal=causal, corner=corner, window=window, mask=mask,
            bias=bias, softcap=softcap, sinks=sinks, queries=queries,
        )  # fmt: skip
    rows = slice(*(queries or (0, q.shape[2])))
    upstream = _finite(do[:, :, rows])
    extra = np.zeros(upstream.shape[:3]) if dlse is None else _finite(dlse[:, :, rows])
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        return _Backward(
            forward, _finite(q[:, :, rows]), _finite(k), _finite(v), upstream, extra, softcap
        ).parts(None if bias is None else _cut(bias.shape, queries))


def _finite(x: Array) -> Array:
    return np.where(np.isfinite(x), x, 0.0)


def _cut(shape: tuple[int, ...], queries: tuple[int, int] | None) -> tuple[int, ...]:
    """The shape of dbias: of these rows only, where the bias has an axis of queries."""
    if queries is None or len(shape) < 2 or shape[-2] == 1:
        return shape
    return (*shape[:-2], queries[1] - queries[0], shape[-1])


class _Backward:
    """One call, head by head."""

    def __init__(
        self,
        forward: Decomposition,
        q: Array,
        k: Array,
        v: Array,
        do: Array,
        dlse: Array,
        softcap: float | None,
    ) -> None:
        self.forward, self.softcap = forward, softcap
        self.q, self.k, self.v, self.do, self.dlse = q, k, v, do, dlse
        self.group = q.shape[1] // k.shape[1]

    def parts(self, bias: tuple[int, ...] | None) -> GradientDecomposition:
        dp, dp_error, abs_dp = self._products()
        p, pi = self.forward.p, self.forward.p_error
        mean, mean_error = self._means(dp, dp_error, abs_dp)
        sizes = np.abs(dp) + (np.abs(mean) + np.abs(self.dlse))[..., None]
        difference = (dp - mean[..., None]) + self.dlse[..., None]
        difference_error = _MORE * (dp_error + mean_error[..., None] + 4 * _U * sizes)
        ds = p * difference
        ds_error = _MORE * (
            (_MORE * pi + 2 * _U)[..., None] * np.abs(ds) + _MORE * p * difference_error
        ) + _TINY * (np.abs(difference) + difference_error)
        ds_error = _known(ds_error + _LEAST, (pi < 2.0**-4)[..., None])
        ds_error = np.where(self.forward.visible, ds_error, 0.0)
        slope, slope_error = self._slopes()
        dt, dt_error = ds, ds_error
        if slope is not None and slope_error is not None:
            dt = ds * slope
            dt_error = _MORE * (ds_error + np.abs(ds) * (slope_error + _U))
            dt_error = np.where(self.forward.visible, dt_error + _LEAST, 0.0)
        return GradientDecomposition(
            self.forward, dp, dp_error, abs_dp, mean, mean_error, difference, difference_error,
            ds, ds_error, slope, slope_error, dt, dt_error,
            dq=self._queries(dt, dt_error),
            dk=self._keys(dt, dt_error),
            dv=self._values(),
            dbias=None if bias is None else _reduced(ds, ds_error, bias),
            dsinks=self._sinks(mean, mean_error),
        )  # fmt: skip

    # --- pairs ---------------------------------------------------------------------------------

    def _products(self) -> tuple[Array, Array, Array]:
        """dP, its error and abs_dp."""
        shape = self.forward.p.shape
        dp, error, absolute = np.empty(shape), np.empty(shape), np.empty(shape)
        slack = 1 + (self.v.shape[3] + 2) * 2.0**-52
        step = max(1, _CHUNK // max(1, shape[3]))
        for b, kv in np.ndindex(self.k.shape[:2]):
            right, sizes = slices(self.v[b, kv]), np.abs(self.v[b, kv]).T
            for h in range(kv * self.group, (kv + 1) * self.group):
                for start in range(0, shape[2], step):
                    at = (b, h, slice(start, start + step))
                    words, error[at] = exact_dot(slices(self.do[at]), right)
                    dp[at], absolute[at] = words[0], np.abs(self.do[at]) @ sizes * slack
        return dp, error, absolute

    def _means(self, dp: Array, dp_error: Array, abs_dp: Array) -> tuple[Array, Array]:
        p, pi = self.forward.p, self.forward.p_error
        mean = np.einsum("bhij,bhij->bhi", p, dp)
        size = np.einsum("bhij,bhij->bhi", p, np.abs(dp))
        error = _MORE * (
            (pi + (p.shape[3] + 3) * _U) * size + np.einsum("bhij,bhij->bhi", p, dp_error)
        )
        lost = _TINY * np.einsum("bhij,bhij->bhi", abs_dp, self.forward.visible.astype(np.float64))
        return mean, _known(error + lost + p.shape[3] * _LEAST, pi < 2.0**-4)

    def _slopes(self) -> tuple[Array | None, Array | None]:
        if self.softcap is None:
            return None, None
        w = np.exp(-2 * np.abs(self.forward.uncapped) / self.softcap)
        slope = 4 * w / (1 + w) ** 2
        error = 20 * _U + _MORE * self.forward.scale / self.softcap * self.forward.dot_error
        return np.minimum(slope, 1.0), error

    # --- sums ----------------------------------------------------------------------------------

    def _queries(self, dt: Array, dt_error: Array) -> Sum:
        keys = np.repeat(self.k, self.group, axis=1)
        return self._scaled(
            _sum(dt @ keys, np.abs(dt) @ np.abs(keys), _times(dt_error, np.abs(keys)), dt.shape[3])
        )

    def _keys(self, dt: Array, dt_error: Array) -> Sum:
        return self._scaled(self._over_rows(dt, dt_error, self.q))

    def _values(self) -> Sum:
        p, pi = self.forward.p, self.forward.p_error
        error = _MORE * pi[..., None] * p + _TINY * self.forward.visible
        return self._over_rows(p, _known(error, (pi < 2.0**-4)[..., None]), self.do)

    def _over_rows(self, x: Array, error: Array, factor: Array) -> Sum:
        """sum over the rows and the query heads of a kv head of x times factor."""
        size = np.abs(factor)
        turned = x.swapaxes(2, 3)
        sums = turned @ factor, np.abs(turned) @ size, _times(error.swapaxes(2, 3), size)
        batch, heads, n_k, columns = sums[0].shape
        folded = (batch, heads // self.group, self.group, n_k, columns)
        value, absolute, lost = (part.reshape(folded).sum(axis=2) for part in sums)
        return _sum(value, absolute, lost, x.shape[2] + self.group)

    def _scaled(self, found: Sum) -> Sum:
        """Times the scale, whose first word is u of itself away."""
        tau, above = self.forward.scale_words[0], self.forward.scale
        rounded = 3 * _U * np.abs(found.value)
        return Sum(
            found.value * tau, above * _MORE * (found.error + rounded), above * found.absolute
        )

    def _sinks(self, mean: Array, mean_error: Array) -> Sum | None:
        p, pi = self.forward.sink_p, self.forward.p_error
        if p is None:
            return None
        factor = self.dlse - mean
        error = _MORE * p * (mean_error + 2 * _U * (np.abs(self.dlse) + np.abs(mean)))
        error = error + _MORE * (pi + 2 * _U) * p * np.abs(factor)
        error = error + _TINY * (np.abs(factor) + np.abs(mean_error))
        error = _known(error + _LEAST, pi < 2.0**-4)
        return _reduced_axes(p * factor, error, (0, 2))


def _known(error: Array, good: Booleans) -> Array:
    return np.where(good, error, np.inf)


def _times(error: Array, size: Array) -> Array:
    """error @ size, with +inf where an error is +inf that meets a factor above 0."""
    endless = np.isinf(error)
    if not endless.any():
        return np.asarray(error @ size)
    found = np.where(endless, 0.0, error) @ size
    return np.where(endless.astype(np.float64) @ (size > 0) > 0, np.inf, found)


def _sum(value: Array, absolute: Array, lost: Array, terms: int) -> Sum:
    """A sum of `terms` products whose factors' errors add up to `lost`."""
    error = _MORE * (lost * (1 + terms * 2.0**-50) + (terms + 4) * _U * absolute)
    error = error + terms * _LEAST
    return Sum(value, error, absolute * (1 + (terms + 4) * 2.0**-52) + error)


def _reduced(x: Array, error: Array, shape: tuple[int, ...]) -> Sum:
    """The sum over the axes along which `shape` was broadcast to that of x."""
    aligned = (1,) * (x.ndim - len(shape)) + shape
    axes = tuple(i for i, length in enumerate(aligned) if length == 1 and x.shape[i] != 1)
    found = _reduced_axes(x, error, axes)
    return Sum(*(part.reshape(shape) for part in (found.value, found.error, found.absolute)))


def _reduced_axes(x: Array, error: Array, axes: tuple[int, ...]) -> Sum:
    terms = math.prod(x.shape[i] for i in axes)
    return _sum(x.sum(axis=axes), np.abs(x).sum(axis=axes), error.sum(axis=axes), terms)
