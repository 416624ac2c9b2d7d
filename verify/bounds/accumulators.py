"""Sums of products: how far a computed sum may be from the exact one (cases A1 to A8)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from verify.arithmetic import Accumulator, Chain, TensorCore
from verify.bounds.statement import Array
from verify.formats import FORMATS

_LARGEST = 300.0  # growth is cut here: such a bound is vacuous, but finite


@dataclass(frozen=True)
class AccumulationError:
    """
    Error of a sum of products.

    Guarantee   |fl(sum a_i b_i) - sum a_i b_i| <= kappa sum |a_i b_i| + eta.
    unit        roundoff of one addition; biased: roundings are not to nearest, so that their sum
                does not average out.
    """

    kappa: Array
    eta: float
    unit: float
    biased: bool


def products_are_exact(acc: Accumulator, left: str, right: str) -> bool:
    """Whether a product of two such numbers needs no rounding of its significand."""
    if isinstance(acc, TensorCore):
        return True
    return FORMATS[acc.format].p >= FORMATS[left].p + FORMATS[right].p


def any_order(
    acc: Accumulator,
    terms: Array,
    length: int,
    *,
    exact_products: bool,
    flush: bool = False,
    rescales: Array | float = 0.0,
) -> AccumulationError:
    """
    Error of an accumulation whose order is not known.

    Shapes      terms: how many products of a row are not zero (any shape); kappa has this shape.
    Definition  y = sum_{i<=length} a_i b_i, interrupted by `rescales` multiplications of the
                partial sum by a number in [0, 1] (each of which rounds once).
    Guarantee   |y_hat - y| <= kappa sum |a_i b_i| + eta, for every order.
                RN, exact products      (1 + (K-1)u/(R+1))^(R+1) (1+u)^R - 1   (A1; R = 0: (K-1)u)
                RN, rounded products    the same with K for K-1 below 24 bits (A2);
                                        (1+u)^(K+R) - 1 from 24 bits on, fma included (A3)
                RZ                      (1+u)^(2K-1+R) - 1, or K-1+R with exact products (A4)
                tensor core             ((1 + N 2^-F)(1+u))^T (1+u)^R - 1, T block steps (A5)
                promoted                a tensor core over chunks, then RN additions (A7)
    Requires    no overflow.  A2: products are rounded on their own, or enter a single chain of fma.
    Special     terms = 0 gives kappa = 0.
    Source      A1, A2: Jeannerod and Rump, SIAM J. Matrix Anal. Appl. 34, 2013; the rest, and the
                rescales: docs/theory/bounds.md, section 2.
    """
    live = np.asarray(terms, np.float64)
    kept = np.minimum(np.asarray(rescales, np.float64), np.maximum(live - 1, 0))
    if isinstance(acc, Chain):
        return _chain(acc, live, length, kept, exact_products, flush)
    return _tensor_core(acc, live, length, kept)


def _chain(
    acc: Chain, live: Array, length: int, rescales: Array, exact: bool, flush: bool
) -> AccumulationError:
    fmt = FORMATS[acc.format]
    u = fmt.unit_roundoff(acc.mode)
    added = np.maximum(live - 1, 0) if exact else live
    if acc.mode == "RZ":
        roundings = np.maximum(live - 1, 0) if exact else np.maximum(2 * live - 1, 0)
        growth = roundings * math.log1p(u)
    elif exact or fmt.p < 24:
        growth = (rescales + 1) * np.log1p(added * u / (rescales + 1))
    else:
        growth = added * math.log1p(u)
    kappa = np.expm1(np.minimum(growth + rescales * math.log1p(u), _LARGEST))
    eta = length * fmt.underflow_unit(acc.mode)
    eta += 2 * length * fmt.smallest_normal if flush else 0.0
    return AccumulationError(kappa, eta, u, acc.mode != "RN")


def _tensor_core(acc: TensorCore, live: Array, length: int, rescales: Array) -> AccumulationError:
    fmt = FORMATS[acc.format]
    u = fmt.unit_roundoff(acc.mode)
    chunk = min(length, acc.promote) if acc.promote else length
    # every online block starts a new run of block steps
    steps = np.minimum(math.ceil(chunk / acc.products) + rescales, live)
    growth = steps * (math.log1p(alignment_loss(acc)) + math.log1p(u))
    additions = np.minimum(math.ceil(length / chunk) - 1 if chunk else 0, live)
    single = max(FORMATS["fp32"].u, fmt.u if fmt.p > 8 and acc.mode == "RN" else 0.0)
    growth = growth + (additions + rescales) * math.log1p(single)
    eta = 2 * FORMATS["fp32"].smallest * (math.ceil(length / acc.products) + 1)
    return AccumulationError(np.expm1(np.minimum(growth, _LARGEST)), eta, u, acc.mode != "RN")


def alignment_loss(acc: TensorCore) -> float:
    """Relative loss of one block step by alignment: as many addends as can be cut, times 2^-F.

    The addend of largest exponent is not cut where its bits fit.  A partial sum that was rescaled
    in binary32 fits only from F = 23 on.
    """
    addends = acc.products + (1 if acc.fraction_bits < 23 else 0)
    return addends * 2.0**-acc.fraction_bits


def subnormal_operands(
    acc: Accumulator, length: int, left: tuple[float, Array], right: tuple[float, Array]
) -> Array | float:
    """
    What a tensor core may lose more where operands are subnormal: it does not normalise them.

    Shapes      left, right: (smallest normal number of the operand, largest magnitude in the row).
    Guarantee   the error grows by at most T N 2^-F ((1 + N 2^-F)(1+u))^T max(w_a |b|, w_b |a|).
    Source      docs/theory/bounds.md, section 2; arXiv 2511.10909 for the behaviour.
    """
    if isinstance(acc, Chain):
        return 0.0
    steps = math.ceil(length / acc.products)
    lost = alignment_loss(acc)
    u = FORMATS[acc.format].unit_roundoff(acc.mode)
    growth = math.exp(min(steps * (math.log1p(lost) + math.log1p(u)), 300.0))
    return steps * lost * growth * np.maximum(left[0] * right[1], right[0] * left[1])


def pairwise_depth(length: int) -> int:
    """Additions on the longest path of a pairwise sum."""
    return math.ceil(math.log2(max(length, 2)))


def largest_finite(acc: Accumulator) -> float:
    """Where the accumulator overflows."""
    return FORMATS[acc.format].largest
