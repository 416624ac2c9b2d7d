"""Theorem 2: what the error hardly ever exceeds where roundings behave as if at random."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from verify.arithmetic import ArithmeticModel
from verify.bounds.deviations import mean_square_deviation
from verify.bounds.exponentials import Exponentials
from verify.bounds.folding import Rows
from verify.bounds.statement import Array
from verify.bounds.weights import Weights
from verify.formats import FORMATS


@dataclass(frozen=True)
class Spread:
    """
    First-order error of an output before its last rounding, split for Theorem 2.

    Shapes      (slabs, rows, d_v) or broadcastable.
    Definition  variance of the independent roundings; bias of everything systematic;
                second: the share of the rigorous bound that stands for products of errors.
    """

    variance: Array
    bias: Array
    second: Array


def confidence(probability: float, elements: int) -> float:
    """lambda of Azuma and Hoeffding for all elements together: sqrt(2 ln(2 N / probability))."""
    return math.sqrt(2 * math.log(2 * max(elements, 1) / probability))


def weight_spread(
    rows: Rows, exps: Exponentials, weights: Weights, systematic: Array
) -> tuple[Array, Array, Array]:
    """
    Variance and bias of sum_j w_j v_j / sum_j w_j, and the largest relative error of a weight.

    Shapes      systematic: sum_j p_j sys_j |v_j - O|; returns (slabs, rows, d_v) twice, and
                (slabs, rows, 1).
    Definition  variance = e^(2 theta_max) sum_j p_j^2 (chance_j + u_P^2)(v_j - O)^2.
    Guarantee   without error bound.
    Source      docs/theory/bounds.md, section 9.
    """
    worst = exps.theta.max(axis=2, initial=0.0, keepdims=True)
    growth = np.exp(np.minimum(worst, 50.0))
    chance = rows.p**2 * (exps.random + weights.in_p**2)
    variance = growth**2 * mean_square_deviation(rows, chance)
    relative = np.expm1(np.minimum(worst, 50.0)) * weights.scale + weights.offset
    return variance, growth * systematic, relative


def probable_error(
    rows: Rows,
    model: ArithmeticModel,
    spread: Spread,
    total: Array,
    level: float,
) -> Array:
    """
    Bound that holds with the probability that `level` stands for.

    Shapes      (slabs, rows, d_v).
    Definition  level sqrt(variance) + bias + total min(1, second), then the output's rounding;
                never above `total`.
    Guarantee   P(some error exceeds its bound) <= probability, to first order and if roundings
                have mean zero and are mean independent of what came before: without error bound
                otherwise.  Repeated equal probabilities violate the assumption.
    Source      Connolly, Higham, Mary, SIAM J. Sci. Comput. 43, 2021; docs/theory/bounds.md,
                section 9.
    """
    fmt = FORMATS[model.output]
    before = level * np.sqrt(spread.variance) + spread.bias
    before = before + total * np.minimum(1.0, spread.second)
    lowest = fmt.underflow_unit(flush=model.flushes_output)
    last = np.maximum(fmt.u * (np.abs(rows.output) + before), lowest)
    return np.minimum(before + last, total)
