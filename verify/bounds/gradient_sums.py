"""Sums of a gradient: accumulation, scale, groups of heads, and the last rounding."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from verify.arithmetic import ArithmeticModel, Chain
from verify.bounds.accumulators import any_order, largest_finite, products_are_exact
from verify.bounds.attention import INFLATION, VACUOUS
from verify.bounds.statement import GRADIENT_STAGES, Array, Booleans, Bound
from verify.formats import FORMATS

_U = 2.0**-52


@dataclass(frozen=True)
class Terms:
    """
    A sum of products, before it is accumulated; all of one shape.

    Definition  value = |sum x y|, size = sum |x| |y|, error = sum E_x |y|; by_p, by_d: the shares
                of `error`.
    """

    value: Array
    size: Array
    error: Array
    by_p: Array
    by_d: Array

    def over_heads(self, value: Array) -> Terms:
        """The sums over axis 1, whose exact result is `value`."""
        by_d = self.by_d if self.by_d.ndim < 2 else self.by_d.sum(axis=1)
        return Terms(
            value, self.size.sum(axis=1), self.error.sum(axis=1), self.by_p.sum(axis=1), by_d
        )

    def stored(self, model: ArithmeticModel, count: Array) -> Terms:
        """After every term was rounded to ds_format (a gradient that is stored before it is
        reduced)."""
        name = model.ds_format or model.p_format
        if name == model.softmax_format:
            return self
        fmt = FORMATS[name]
        error = self.error
        for _ in range(model.ds_roundings):
            error = error + fmt.u * (self.size + error) + count * fmt.underflow_unit()
        return replace(self, error=error)


@dataclass(frozen=True)
class Sum:
    """A sum with its scale, before the last rounding: |sum_hat - sum| <= error, |sum| = value."""

    value: Array
    size: Array
    error: Array
    by_p: Array
    by_d: Array
    over: Booleans  # a partial sum may exceed its accumulator

    def either(self, other: Sum) -> Sum:
        """What is summed in one of two ways: the larger error, with its shares."""
        more = other.error > self.error
        by_p, by_d = (
            np.where(more, getattr(other, name), getattr(self, name)) for name in ("by_p", "by_d")
        )
        error = np.maximum(self.error, other.error)
        return replace(self, error=error, by_p=by_p, by_d=by_d, over=self.over | other.over)

    def rounded_to(self, name: str) -> Sum:
        """After being written in a format."""
        fmt = FORMATS[name]
        lost = np.maximum(fmt.u * (self.value + self.error), fmt.underflow_unit())
        over = self.over | (self.value + self.error >= fmt.overflow_threshold)
        return replace(self, error=self.error + lost, over=over)

    def added(self, count: int, name: str, value: Array) -> Sum:
        """The sum over axis 1 of `count` numbers, in a format and any order."""
        fmt = FORMATS[name]
        kappa = (count - 1) * fmt.u
        reach = (self.value + self.error).sum(axis=1)
        error = self.error.sum(axis=1) + kappa * reach
        by_d = self.by_d if self.by_d.ndim < 2 else self.by_d.sum(axis=1)
        over = self.over.any(axis=1) | ((1 + kappa) * reach >= fmt.overflow_threshold)
        return Sum(value, self.size.sum(axis=1), error, self.by_p.sum(axis=1), by_d, over)


def summed(
    terms: Terms,
    model: ArithmeticModel,
    count: Array,
    length: int,
    *,
    scale: float | None,
    chunk: int = 0,
    operands: tuple[str, ...] | None = None,
    alone: bool = False,
) -> Sum:
    """
    The accumulated sum, times the scale.

    Shapes      count: terms that are not 0, broadcastable to those of `terms`.
    Guarantee   t = (1+kappa) error + kappa size + eta; with a scale tau (t + om value) (1+om) where
                it multiplies the sum, and tau ((1+om) t + om size), om = (1+u)^6 - 1, where it
                multiplies operands.  Rounded to the output after every block of terms:
                ((1+u_out)^(B-1) - 1)(size + t) more, B blocks.
    chunk       which of gradient_block counts (0 queries, 1 keys); operands: the format of the left
                operand (ds_format by default); `alone`: plain additions, no products
    Special     no terms give 0.
    Source      docs/theory/bounds.md, section 14.3.
    """
    single = FORMATS[model.softmax_format]
    eta = single.underflow_unit(flush=model.flush_to_zero)
    if alone:
        acc = any_order(Chain(model.softmax_format), count, length, exact_products=True)
        limit = single.largest
    else:
        left = (operands or (model.ds_format or model.p_format,))[0]
        acc = any_order(
            model.gradients,
            count,
            length,
            exact_products=products_are_exact(model.gradients, left, model.input),
            flush=model.flush_to_zero,
        )
        limit = largest_finite(model.gradients)
    kappa = acc.kappa
    if model.convert and not alone:
        kappa = (1 + kappa) * (
            1 + FORMATS[model.convert[0]].unit_roundoff(model.convert[1])
        ) ** 2 - 1
    slack = (length + 4) * _U * terms.size  # of the exact sum as it is formed here
    error = (1 + kappa) * terms.error + kappa * terms.size
    over = (1 + kappa) * (terms.size + terms.error) > limit
    value, size, by_p, by_d = terms.value + slack, terms.size, terms.by_p, terms.by_d
    if scale is not None:
        value, size, by_p, by_d = scale * value, scale * size, scale * by_p, scale * by_d
        error = _scaled(model, scale * error, value, size) + 2 * eta
        over = over | (size + error > limit)
    error = error + acc.eta * max(1.0, scale or 1.0)
    if model.gradient_block is not None and not alone:
        fmt = FORMATS[model.output]
        blocks = max(math.ceil(length / model.gradient_block[chunk]) - 1, 0)
        error = error + ((1 + fmt.u) ** blocks - 1) * (size + error)
        error = error + blocks * fmt.underflow_unit()
        over = over | ((blocks > 0) & (size + error >= fmt.overflow_threshold))
    return Sum(value, size, error, by_p, by_d, np.asarray(over))


def _scaled(model: ArithmeticModel, error: Array, value: Array, size: Array) -> Array:
    u = FORMATS[model.scale_format].u
    if model.gradient_scale == "last":
        om = (1 + u) ** 2 - 1
        return np.asarray((1 + om) * error + om * value)
    om = (1 + u) ** 6 - 1
    return np.asarray((1 + om) * error + om * size)


def finished(found: Sum, model: ArithmeticModel, flags: Mapping[str, Booleans]) -> Bound:
    """The gradient as it is returned: one rounding, parts and flags."""
    fmt = FORMATS[model.output]
    lowest = fmt.underflow_unit(flush=model.flushes_output)
    last = np.maximum(fmt.u * (found.value + found.error), lowest)
    total = (found.error + last) * INFLATION
    shape = total.shape
    reasons = {name: np.broadcast_to(flag, shape) for name, flag in flags.items()}
    reasons["G3"] = np.broadcast_to(found.over, shape)
    reasons["G4"] = found.value + found.error >= fmt.overflow_threshold
    kept = {name: np.asarray(flag) for name, flag in reasons.items() if flag.any()}
    flagged = np.zeros(shape, bool)
    for flag in kept.values():
        flagged = flagged | flag
    total = np.where(flagged | ~(total <= VACUOUS), np.inf, total)
    by_p = np.minimum(found.by_p, found.error)
    by_d = np.minimum(found.by_d, found.error - by_p)
    ds_and_sum = found.error - by_p - by_d
    parts = (by_p, by_d, ds_and_sum, last)
    return Bound(
        total,
        total,
        flagged,
        kept,
        {
            name: np.broadcast_to(part, shape)
            for name, part in zip(GRADIENT_STAGES, parts, strict=True)
        },
    )
