"""Weights: bounds of the computed probabilities, and of their sum (stage 2, per form of P)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from verify.arithmetic import ArithmeticModel
from verify.bounds.exponentials import Exponentials
from verify.bounds.folding import Rows
from verify.bounds.statement import Array, Booleans
from verify.formats import FORMATS


@dataclass(frozen=True)
class Weights:
    """
    The weights w_j = p_j (1 + phi_j) + alpha_j of a block of rows, e_hat_j = C l w_j.

    Shapes      largest, absolute (slabs, rows, n); the others (slabs, rows, 1).
    Guarantee   |w_j - p_j| <= scale growth_j + offset p_j + absolute_j,  growth of `Exponentials`
                sum of these <= excess;  sum_j w_j >= least > 0
                w_j / sum_k w_k <= largest_j
    absolute    None where nothing underflows; absolute_sum its sum
    in_p        roundoff of P where it is common to numerator and denominator, else 0
    small       keys whose P may be subnormal in its format (None: none)
    """

    scale: Array
    offset: Array
    excess: Array
    least: Array
    largest: Array
    absolute: Array | None
    absolute_sum: Array
    in_p: float
    small: Booleans | None
    flags: dict[str, Booleans]

    def lower(self, rows: Rows, exps: Exponentials) -> Array:
        """A lower bound of w_j / sum_k w_k."""
        return _low(rows, exps, self.in_p) / (1 + self.excess)


def weights(rows: Rows, model: ArithmeticModel, exps: Exponentials) -> Weights:
    """
    Weights for one way of forming P.

    Shapes      see `Weights`.
    Definition  up = exp(theta) E (1 + u_P) - 1 and low = exp(-theta)(2 - E)(1 - u_P), u_P = 0
                unless the row sum adds rounded P: then the rounding of P is part of the weight.
    Guarantee   see `Weights`; largest = min(1, w/(w + sum_k p_k low_k - p_j low_j)), w = p (1+up);
                least = sum_k p_k low_k - underflow, or what the shift guarantees.
    Requires    no flag O1 to O4.
    Special     O6 where the sum of the weights may vanish.
    Source      docs/theory/bounds.md, section 4.
    """
    rounded = model.sums_rounded_p
    in_p = FORMATS[model.p_format].u if rounded else 0.0
    log_up = exps.log_e + math.log1p(in_p)
    scale, offset = np.exp(log_up), np.expm1(log_up)
    low = _low(rows, exps, in_p)
    upper = rows.p * scale + exps.growth * scale
    excess = exps.growth.sum(axis=2, keepdims=True) * scale + offset
    small = _small(rows, model, exps, excess)
    absolute = _absolute(model, exps, small if rounded else None, rows, upper)
    absolute_sum = np.zeros(scale.shape)
    if absolute is not None:
        absolute_sum = absolute.sum(axis=2, keepdims=True)
        upper = upper + absolute
    least = low.sum(axis=2, keepdims=True) * (1 - 2.0**-40) - absolute_sum
    rest = np.maximum(least - low, 0.0)
    # a shifted row sum cannot vanish, whatever the errors of the scores
    shifted = exps.least_sum * (1 - in_p) * np.exp(-exps.log_c_upper) / rows.row_sum
    least = np.maximum(least, shifted)
    flags = exps.flags | {"O6": (least <= 0) & ~rows.empty}
    least = np.maximum(least, 1e-290)
    largest = np.divide(upper, upper + rest, out=np.zeros(upper.shape), where=upper > 0)
    return Weights(
        scale=scale,
        offset=offset,
        excess=excess + absolute_sum,
        least=least,
        largest=np.minimum(largest, 1.0),
        absolute=absolute,
        absolute_sum=absolute_sum,
        in_p=in_p,
        small=None if rounded else small,
        flags=flags,
    )


def _low(rows: Rows, exps: Exponentials, in_p: float) -> Array:
    """p_j low_j."""
    scale = np.maximum(2 - np.exp(exps.log_e), 0.0) * (1 - in_p)
    return np.asarray(rows.p * np.exp(-exps.theta) * scale)


def _small(
    rows: Rows, model: ArithmeticModel, exps: Exponentials, excess: Array
) -> Booleans | None:
    """Keys whose P may fall below the normal range of its format."""
    fmt = FORMATS[model.p_format]
    if not model.rounds_p and not model.flush_p and not model.p_normalised:
        return None
    if model.p_normalised:
        # an upper bound of l_hat, in units of C; the 2 covers the division
        roundings = rows.count + exps.rescales + model.splits
        u = FORMATS[model.row_sum.format].unit_roundoff(model.row_sum.mode)
        log_unit = -np.log(2 * rows.row_sum) - np.log1p(excess) - roundings * u
    else:
        log_unit = exps.log_c_lower + model.p_offset * math.log(2)
    least = np.log(np.maximum(2 - np.exp(exps.log_e), 1e-300))
    smallest = -rows.distance - exps.theta + least + log_unit
    small = rows.live & (smallest < math.log(fmt.smallest_normal))
    return small if small.any() else None


def _absolute(
    model: ArithmeticModel,
    exps: Exponentials,
    small: Booleans | None,
    rows: Rows,
    upper: Array,
) -> Array | None:
    """alpha_j: underflow of the exponential, and of P where rounded P is summed."""
    found = None
    if exps.underflow is not None:
        found = exps.underflow / rows.row_sum
    if small is not None:
        unit = p_underflow(model) * np.exp(-exps.log_c_lower) / rows.row_sum
        # rounding to nearest loses no more than the number itself
        lost = np.where(small, np.minimum(unit, upper), 0.0)
        found = lost if found is None else found + lost
    return found


def p_underflow(model: ArithmeticModel) -> float:
    """Absolute error of P by underflow in its format, in units of P before the offset."""
    if not model.rounds_p and not model.flush_p:
        return 0.0
    fmt = FORMATS[model.p_format]
    # an operand that is read as zero
    least = FORMATS[model.softmax_format].smallest_normal
    flush = model.flush_p or (model.flush_to_zero and fmt.smallest_normal <= least)
    return float(fmt.underflow_unit(flush=flush) * 2.0**-model.p_offset)
