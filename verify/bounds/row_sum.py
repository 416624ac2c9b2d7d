"""Row sum: how far l_hat may be from the exact sum of the computed exponentials (stage 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from verify.arithmetic import ArithmeticModel
from verify.bounds.accumulators import any_order, pairwise_depth
from verify.bounds.exponentials import Exponentials
from verify.bounds.folding import Rows
from verify.bounds.running import running_row_sum
from verify.bounds.statement import Array, Booleans
from verify.bounds.weights import Weights
from verify.formats import FORMATS


@dataclass(frozen=True)
class RowSumError:
    """
    Error of the row sum of a block of rows; all arrays (slabs, rows, 1).

    Guarantee   l / growth <= l_hat <= (1 + kappa) l,  l the exact sum of what is added
                |(N/l_hat) / (N/l) - 1| <= factor, the division included
    reach       upper bound of l in the kernel's own units, for flags: it takes for granted that a
                sink is part of the maximum, so that leaving it out excuses no overflow
    """

    kappa: Array
    growth: Array
    factor: Array
    reach: Array
    flags: dict[str, Booleans]


def row_sum_error(
    rows: Rows, model: ArithmeticModel, exps: Exponentials, weights: Weights
) -> RowSumError:
    """
    Error of the row sum and of the division by it.

    Shapes      see `RowSumError`.
    Guarantee   kappa   (1 + (n-1)u/(R+1))^(R+1) (1+u)^(R+S-1) - 1 in any order (S parts merged),
                        pairwise (1+u)^(h+2R+S-1) - 1, declared order `running_row_sum`
                growth  min(1/(1-kappa), 1/((1-u)^(n-1+R+S-1) - lost), largest / least), the last
                        because a sum of positive numbers that rounds to nearest never falls
                        below a term; lost: underflow of rescaled sums
                stored once more: times 1 + u of that format, and 1/(1 - u)
                factor  max(growth (1+k) - 1, 1 - (1-k)/(1+kappa)), k = (1+2u)(1+u) - 1 for a
                        reciprocal and a product, u for a division
    Requires    no flag O5, O6; positive terms.
    Special     growth stays finite where n u >= 1.
    Source      docs/theory/bounds.md, section 5.
    """
    fmt = FORMATS[model.row_sum.format]
    u = fmt.unit_roundoff(model.row_sum.mode)
    merges = max(model.splits - 1, 0)
    kappa = _kappa(rows, model, exps, weights)
    # rescaled sums may underflow; they are no smaller than the least sum
    lost = (exps.rescales + merges) * fmt.underflow_unit(model.row_sum.mode, model.flush_to_zero)
    least = rows.row_sum * weights.least * np.exp(exps.log_c_lower)
    least = np.maximum(np.maximum(least, exps.least_sum), 1e-290)
    coarser = max(u, FORMATS[model.softmax_format].u)
    kappa = (1 + kappa) * (1 + coarser) ** merges - 1 + lost / least
    added = np.maximum(rows.count - 1, 0) + exps.rescales
    kept = np.exp(added * math.log1p(-u) + merges * math.log1p(-coarser)) - lost / least
    kept = np.maximum(kept, 1 - kappa)
    growth = 1 / np.maximum(kept, 1e-130)
    largest = _largest_sum(rows, model, exps, weights)
    if model.shift and model.row_sum.mode == "RN":
        some = np.maximum(exps.least_sum * (1 - weights.in_p), 1e-300)
        growth = np.minimum(growth, np.maximum(largest / some, 1.0))
    if model.stored_row_sum is not None:
        stored = FORMATS[model.stored_row_sum]
        kappa, growth = (1 + kappa) * (1 + stored.u) - 1, growth / (1 - stored.u)
    division = _division(model)
    factor = np.maximum(growth * (1 + division) - 1, 1 - (1 - division) / (1 + kappa))
    finished = min(fmt.largest, FORMATS[model.stored_row_sum or model.row_sum.format].largest)
    reach = largest * np.exp(-np.minimum(exps.sink_above, 300.0))
    # before the maximum is met the running sum is relative to a smaller one: each term may be 1
    early = rows.count * (1 + weights.in_p) * np.exp(exps.log_largest)
    running = np.where(exps.tiled(model), np.maximum(reach, early), reach)
    over = ((1 + kappa) * running > fmt.largest) | ((1 + kappa) * reach > finished)
    return RowSumError(kappa, growth, factor, reach, weights.flags | {"O5": over})


def _kappa(rows: Rows, model: ArithmeticModel, exps: Exponentials, weights: Weights) -> Array:
    u = FORMATS[model.row_sum.format].unit_roundoff(model.row_sum.mode)
    if model.row_sum_order == "pairwise":
        depth = np.minimum(pairwise_depth(rows.n), np.maximum(rows.count - 1, 0))
        # a block's sum is added to the running one, which was rescaled
        return np.expm1((depth + 2 * exps.rescales) * math.log1p(u))
    kappa = any_order(
        model.row_sum, rows.count, rows.n, exact_products=True, rescales=exps.rescales
    ).kappa
    if model.row_sum_order == "sequential" and model.splits == 1 and not rows.has_sink:
        low = weights.lower(rows, exps)
        wrong = np.maximum(weights.largest - rows.p, rows.p - low)
        running = running_row_sum(rows, model.row_sum, wrong.sum(axis=2, keepdims=True))
        kappa = np.minimum(kappa, (1 + running) * (1 + u) ** exps.rescales - 1)
    return kappa


def _largest_sum(rows: Rows, model: ArithmeticModel, exps: Exponentials, weights: Weights) -> Array:
    """Upper bound of the exact sum of the exponentials in the kernel's units."""
    total = rows.row_sum * (1 + weights.excess) * np.exp(exps.log_c_upper)
    if not model.shift:
        return total
    top = np.minimum(exps.stale + exps.residual + exps.sink_above, 300.0)
    each = (1 + 2 * model.exp_error) * (1 + weights.in_p) * np.exp(top)
    return np.asarray(np.minimum(total, rows.count * each))


def _division(model: ArithmeticModel) -> float:
    """Relative error of the division by the row sum."""
    u = FORMATS[model.softmax_format].u
    return u if model.p_normalised else (1 + 2 * u) * (1 + u) - 1
