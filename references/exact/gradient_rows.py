"""One query row of the backward pass: p, dS, dT and what bounds their terms.

Notation    For one row: e_j, l, p_j, G, eps, w of `precision`, with N also at least the number of
            terms of every sum over rows; rho = G eps, so that |p^_j - p_j| <= rho p_j, (N + 1) eps
            <= rho / 32 and eps <= rho / 64.  B = sum_j p_j |dP_j|, W_j = |dP_j| + B + |dLSE|,
            F_j = p_j W_j.  Second-order terms disappear in the rounding up of the constants.

Proof       dP_j        exact (integers), eps when it becomes a number of w bits
            D           sum_j p^_j dP_j from the integers:             rho B + rho B / 32 < 2 rho B
            g_j         dP_j - D + dLSE: eps |dP_j| + 2 rho B + 2 eps W_j          <  3 rho W_j
            dS_j        p^_j g_j, one product: (3 + 1) rho F_j + eps F_j           <  5 rho F_j
            slope       1 - tanh(x/c)^2: tanh up to 7 eps of itself (`precision`), so absolute
                        14 eps + 2 eps                                             <  rho / 3
            dT_j        dS_j slope                                                 <  6 rho F_j
            dQ          tau sum_j dT_j k_j from the integers: (6 + 1/32) rho, tau and the products
                        4 eps, relative to |tau| sum_j F_j |k_j|                   <  7 rho
            dK, dbias, dsinks, dV: the same sums, with q, 1, and p dO for dV       <  7 rho
            F_j, and the sums of absolute terms                                    <  8 rho

So with rho <= 2^-(t + 4) every gradient has an error below 2^-t of its sum of absolute terms as it
was computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from references.enclosure import ANYTHING, FINITE, NAN, NON_FINITE, Array
from references.exact.integers import scaled_integers, weighted_sums
from references.exact.precision import Context, Real
from references.exact.scores import Head, exponentials, row_scores, row_slopes

# What a term that is not finite does to a sum, from the least to the strongest.
FINITE_TERM, NON_FINITE_TERM, UNSPECIFIED_TERM, NAN_TERM = range(4)
CLASSES = (FINITE, NON_FINITE, ANYTHING, NAN)

Pair = tuple[Real, Real]  # a term, and F or what else bounds it


@dataclass
class Row:
    """
    The terms of one query row, by key.

    keys      the visible keys
    scores    what the scores are (one of the four levels above); p is empty where not finite
    ds_level  what dS and all that is made of it are; ds, dt are empty where not finite
    do_level  what each column of dO is
    sink      p_sink (dLSE - D), or None without a sink
    """

    keys: set[int]
    scores: int
    ds_level: int
    do_level: list[int]
    p: dict[int, Real] = field(default_factory=dict)
    ds: dict[int, Pair] = field(default_factory=dict)
    dt: dict[int, Pair] = field(default_factory=dict)
    sink: Pair | None = None


def make_row(mp: Context, head: Head, i: int, do: list[float], dlse: float) -> Row:
    """The row i of a head, all of whose rows were asked for."""
    keys, bias = head.keys(i), head.bias_row(i)
    scores = row_scores(mp, head, i, keys, bias)
    row = Row(
        set(keys),
        _score_level(head, i, keys, bias, any(map(mp.isnan, scores.values()))),
        FINITE_TERM,
        [level([x]) for x in do],
    )
    values = level([*do, dlse, *head.v[keys].ravel().tolist()])
    if not keys and (values or not _finite_or_none(head.sink)):
        # D is a sum without terms for one kernel, 0 times NaN for another
        row.scores = row.ds_level = UNSPECIFIED_TERM
        return row
    row.ds_level = row.scores or values
    if not row.scores and (keys or head.sink is not None):
        weights = exponentials(mp, scores, head.sink, 0.0)
        ones = np.full((len(keys), 1), 1, dtype=object)
        total = weighted_sums(mp, list(weights.weights.values()), ones)[0] + weights.sink
        row.p = {j: weight / total for j, weight in weights.weights.items()}
        if not row.ds_level:
            _differentiate(mp, head, i, row, do, dlse, weights.sink / total)
    return row


def level(values: list[float]) -> int:
    """The strongest of the levels of some factors."""
    if any(map(math.isnan, values)):
        return NAN_TERM
    return FINITE_TERM if all(map(math.isfinite, values)) else NON_FINITE_TERM


def _finite_or_none(sink: float | None) -> bool:
    return sink is None or math.isfinite(sink)


def _score_level(head: Head, i: int, keys: list[int], bias: list[float], nan: bool) -> int:
    """NAN, or unspecified where an infinity takes part (a sink of -inf counts as none)."""
    sink = 0.0 if head.sink is None or head.sink == -math.inf else head.sink
    if nan or math.isnan(sink):
        return NAN_TERM
    factors: list[Array] = [head.k[keys], np.array([bias[j] for j in keys]), np.array(sink)]
    if keys:
        factors.append(head.q[i])
    plain = all(bool(np.isfinite(x).all()) for x in factors)
    return FINITE_TERM if plain else UNSPECIFIED_TERM


def _differentiate(
    mp: Context, head: Head, i: int, row: Row, do: list[float], dlse: float, sink: Real
) -> None:
    """dS, dT and the sink's term, with what bounds them."""
    keys = list(row.p)
    upstream, values = scaled_integers(np.array(do)), scaled_integers(head.v[keys])
    products = values.integers @ upstream.integers
    exponent = values.exponent + upstream.exponent
    columns = np.stack([products, np.abs(products)], axis=1)
    sums = weighted_sums(mp, list(row.p.values()), columns)
    mean, size = (mp.ldexp(x, exponent) for x in sums)
    extra = mp.mpf(dlse)
    slopes = row_slopes(mp, head, i, keys)
    for j, product, slope in zip(keys, products.tolist(), slopes, strict=True):
        dp, p = mp.mpf((product, exponent)), row.p[j]
        ds, bound = p * (dp - mean + extra), p * (abs(dp) + size + abs(extra))
        row.ds[j] = ds, bound
        row.dt[j] = ds * slope, bound
    if head.sink is not None:
        row.sink = sink * (extra - mean), sink * (size + abs(extra))
