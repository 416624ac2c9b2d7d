"""Sums in a declared order: running error bounds from the exact partial sums."""

from __future__ import annotations

import numpy as np

from verify.arithmetic import Accumulator, Chain, TensorCore
from verify.bounds.accumulators import alignment_loss
from verify.bounds.folding import Rows
from verify.bounds.statement import Array
from verify.formats import FORMATS

_CHUNK = 2**20  # products treated at a time


def sequential(acc: Accumulator, products: Array, exact_products: bool) -> tuple[Array, Array]:
    """
    Error of a sum taken from the first product to the last, one accumulator.

    Shapes      products (..., K); returns (bound, variance), each (...,).
    Definition  y_k = sum of the first k products.
    Guarantee   |y_hat - y| <= bound, up to the accumulator's eta (`any_order`):
                chain           (1+u)^K u sum |y_k|, k from 2 where products are exact
                two roundings   (1+u)^(K+1) u (sum |y_k| + A), formats below 24 bits
                tensor core     e <- (1+u)((1+nu) e + nu mu) + u |y|, nu = N 2^-F,
                                mu = max(|previous sum|, largest product of the block)
                variance: of the sum, if roundings are independent with mean zero (RN chains).
    Requires    no overflow.
    Source      docs/theory/bounds.md, section 2.
    """
    k = products.shape[-1]
    total = np.abs(products).sum(axis=-1)
    if k == 0:
        return total, total
    partial = np.abs(np.cumsum(products, axis=-1))
    slack = k * 2.0**-50 * total  # of the partial sums themselves, formed in float64
    if isinstance(acc, TensorCore):
        return _block_steps(acc, products, partial) + slack, np.zeros(total.shape)
    u = FORMATS[acc.format].unit_roundoff(acc.mode)
    separate = not exact_products and FORMATS[acc.format].p < 24
    first = 1 if exact_products else 0
    sums = partial[..., first:].sum(axis=-1) + (total if separate else 0.0)
    variance = u**2 * (partial**2).sum(axis=-1)
    if not exact_products:
        variance = variance + u**2 * (products**2).sum(axis=-1)
    bound = (1 + u) ** (k + separate) * u * sums + slack
    return bound, variance


def _block_steps(acc: TensorCore, products: Array, partial: Array) -> Array:
    k = products.shape[-1]
    u, nu = FORMATS[acc.format].unit_roundoff(acc.mode), alignment_loss(acc)
    error = np.zeros(products.shape[:-1])
    before = np.zeros(products.shape[:-1])
    for first in range(0, k, acc.products):
        after = partial[..., min(first + acc.products, k) - 1]
        block = np.abs(products[..., first : first + acc.products]).max(axis=-1)
        largest = np.maximum(before, block)
        error = (1 + u) * ((1 + nu) * error + nu * largest) + u * after
        before = after
    return error


def running_products(rows: Rows, acc: Accumulator, exact: bool) -> tuple[Array, Array]:
    """`sequential` for all scores: (bound, variance), both (slabs, rows, n)."""
    bound, variance = np.zeros(rows.p.shape), np.zeros(rows.p.shape)
    n = rows.k.shape[1]
    step = max(1, _CHUNK // max(1, n * rows.d))
    for slab in range(rows.q.shape[0]):
        for first in range(0, rows.q.shape[1], step):
            some = slice(first, first + step)
            products = rows.q[slab, some, None, :] * rows.k[slab, None, :, :]
            found = sequential(acc, products, exact)
            bound[slab, some, :n], variance[slab, some, :n] = found
    return bound, variance


def running_outputs(rows: Rows, acc: Accumulator, exact: bool) -> tuple[Array, Array]:
    """`sequential` for sum_j p_j v_j: (bound, variance), both (slabs, rows, d_v)."""
    bound, variance = np.zeros(rows.output.shape), np.zeros(rows.output.shape)
    step = max(1, _CHUNK // max(1, rows.n * rows.output.shape[2]))
    for slab in range(rows.p.shape[0]):
        values = rows.values[slab].T[None]
        for first in range(0, rows.p.shape[1], step):
            some = slice(first, first + step)
            products = rows.p[slab, some, None, :] * values
            bound[slab, some], variance[slab, some] = sequential(acc, products, exact)
    return bound, variance


def running_row_sum(rows: Rows, acc: Chain, wrong: Array) -> Array:
    """
    Relative error of the row sum, first key first, from partial sums of p.

    Shapes      wrong: sum_j |p_hat_j - p_j| (slabs, rows, 1), like the result.
    Guarantee   (1+u)^n u (sum_{k>=2} sum_{j<=k} p_j + (n-1) wrong).
    Source      docs/theory/bounds.md, section 5.
    """
    u = FORMATS[acc.format].unit_roundoff(acc.mode)
    partial = np.cumsum(rows.p, axis=2)[:, :, 1:].sum(axis=2, keepdims=True)
    return np.asarray((1 + u) ** rows.n * u * (partial + (rows.n - 1) * wrong))
