"""Finite float64 arrays as Python integers with one common exponent: exact, quick to multiply."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from references.enclosure import Array
from references.exact.precision import Context, Real

IntegerArray = NDArray[Any]  # of dtype object, holding Python integers

# Weights whose exponents differ by less than this are added as integers of at most that length.
BIN_BITS = 4096


@dataclass(frozen=True)
class Scaled:
    """The real array `integers * 2^exponent`."""

    integers: IntegerArray
    exponent: int


def scaled_integers(x: Array) -> Scaled:
    """
    The array x as integers times one power of two; what is not finite becomes 0.

    Shapes      any; the integers have the shape of x.
    Definition  x = integers * 2^exponent, with the largest exponent that allows it.
    Guarantee   exact.
    Requires    nothing; the integers are as long as the exponents are spread.
    Special     NaN and infinities are replaced by 0: the caller treats them before.
    Source      `float.as_integer_ratio`, whose denominators are powers of two.
    """
    ratios = [v.as_integer_ratio() for v in np.where(np.isfinite(x), x, 0.0).ravel().tolist()]
    denominator = max((d for _, d in ratios), default=1)
    integers = [n * (denominator // d) for n, d in ratios]
    bits = reduce(or_, integers, 0)
    shift = (bits & -bits).bit_length() - 1 if bits else 0
    array = np.empty(len(integers), dtype=object)
    array[:] = [n >> shift for n in integers]
    return Scaled(array.reshape(x.shape), shift - (denominator.bit_length() - 1))


def weighted_sums(mp: Context, weights: list[Real], columns: IntegerArray) -> list[Real]:
    """
    The sums over j of weights[j] * columns[j, c], one per column c.

    Shapes      weights: (terms,), finite; columns: (terms, columns), integers.
    Definition  sum_j w_j a_jc.
    Guarantee   error <= (terms + 1) 2^-w sum_j |w_j a_jc|: weights of similar exponent are added
                exactly as integers; one rounding per bin and one per addition of two bins.
    Requires    the context at the working precision w.
    Special     no terms: 0.
    Source      a floating-point number is an integer times a power of two.
    """
    bins: dict[int, list[int]] = {}
    for j, weight in enumerate(weights):
        bins.setdefault(weight._mpf_[2] // BIN_BITS, []).append(j)
    totals = [mp.zero] * columns.shape[1]
    for members in bins.values():
        lowest = min(weights[j]._mpf_[2] for j in members)
        shifted = np.empty(len(members), dtype=object)
        shifted[:] = [_integer(weights[j], lowest) for j in members]
        sums = shifted @ columns[members]
        totals = [total + mp.mpf((s, lowest)) for total, s in zip(totals, sums, strict=True)]
    return totals


def _integer(weight: Real, exponent: int) -> int:
    """weight 2^-exponent, which is an integer."""
    sign, mantissa, own, _ = weight._mpf_
    size: int = int(mantissa) << (own - exponent)
    return -size if sign else size
