"""Scores: how far every computed score may be from the exact one (stage 1)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from verify.arithmetic import ArithmeticModel, TensorCore
from verify.bounds.accumulators import (
    any_order,
    largest_finite,
    products_are_exact,
    subnormal_operands,
)
from verify.bounds.folding import Rows, sqrt_scale
from verify.bounds.running import running_products
from verify.bounds.statement import Array, Booleans
from verify.formats import FORMATS

# The model's fields that this stage reads: variants that agree in them share its result.
FIELDS = (
    "input", "convert", "qk", "scale_format", "scale_position", "scaled_operands", "stored_scores",
    "stores", "softmax_format", "exponential", "flush_to_zero", "tanh_ulps", "tanh_absolute",
    "order",
)  # fmt: skip


_FAR = 1000.0  # exp(-1000) is 0 in every format


@dataclass(frozen=True)
class ScoreError:
    """
    Errors of the scores of a block of rows.

    Shapes      delta, variance, systematic (slabs, rows, n); flags (slabs, rows, 1).
    Guarantee   |s_hat - s| <= delta.
    Definition  variance and systematic split the first-order error for Theorem 2: independent
                roundings of mean zero, and everything else.
    """

    delta: Array
    variance: Array
    systematic: Array
    flags: dict[str, Booleans] = field(default_factory=dict)


@dataclass(frozen=True)
class _Stage:
    """A quantity on its way to the score: bound of its error, and the split of Theorem 2."""

    error: Array
    variance: Array
    systematic: Array

    def scaled(self, factor: float) -> _Stage:
        return _Stage(factor * self.error, factor**2 * self.variance, factor * self.systematic)

    def rounded(self, size: Array, relative: float, absolute: float = 0.0) -> _Stage:
        """After one more operation of that relative error, whose result has that size."""
        lost = relative * (size + self.error) + absolute
        return _Stage(
            self.error + lost, self.variance + (relative * size) ** 2, self.systematic + absolute
        )

    def stored(self, size: Array, name: str) -> _Stage:
        """After being written in a format."""
        fmt = FORMATS[name]
        lost = np.maximum(fmt.u * (size + self.error), fmt.underflow_unit())
        return _Stage(self.error + lost, self.variance + lost**2, self.systematic)


def score_error(rows: Rows, model: ArithmeticModel) -> ScoreError:
    """
    Error of the scores before the shift.

    Shapes      see `ScoreError`.
    Definition  s = t + bias, t = softcap tanh(x / softcap) or x, x = scale y, y = q . k.
    Guarantee   |s_hat_j - s_j| <= delta_j for every model field, absolute.  In this order:
                product     kappa A + eta, with converted operands (1+kappa)((1+u_c)^2 - 1) A more
                scale       'scores': (1+om)(scale dy) + om |x|, om = (1+u)^2 - 1
                            'query', 'both': ((1+kappa)(1+g) - 1) scale A, g from the two to five
                            roundings of operands and constant; 'exponent': scale dy
                softcap     mean value theorem with the exact Lipschitz constant of the interval
                bias        u (|s| + delta), and 2 u |bias| with a base-2 exponent
                storing     max(u (|.| + delta), eta) once, or after each of these steps
                sink        3 u |sink| (its conversion and its multiple by log2 e)
    Requires    no flag O1 to O3.
    Special     delta = 0 where the key is not live.
    Source      docs/theory/bounds.md, section 3.
    """
    flags: dict[str, Booleans] = {}
    placed = _position(rows, model)
    x = _scaled(rows, model, placed, flags)
    if rows.softcap is not None:
        x = _capped(rows, model, x)
    if rows.bias is not None:
        x = _biased(rows, model, x)
    x = _finished(rows, model, x, flags)
    # float64 scores, and the oracle's product, are good to this much
    slack = 2.0**-50 * rows.score + rows.scale * rows.dot_error
    delta = np.where(rows.live, x.error + slack, 0.0)
    return ScoreError(
        delta,
        np.where(rows.live, x.variance, 0.0),
        np.where(rows.live, x.systematic + slack, 0.0),
        flags,
    )


def _position(rows: Rows, model: ArithmeticModel) -> str:
    if model.scale_position != "exponent":
        return model.scale_position
    folded = model.exponential == "fma" and rows.softcap is None and rows.bias is None
    return "exponent" if folded and not rows.has_sink else "scores"


def _scaled(rows: Rows, model: ArithmeticModel, placed: str, flags: dict[str, Booleans]) -> _Stage:
    """x = scale y, with its error."""
    y = _product(rows, model, placed, flags)
    if placed in ("query", "both"):
        return _kept(rows, model, y, rows.uncapped, flags)
    y = _kept(rows, model, y, rows.dot, flags)
    if placed == "exponent":
        return y.scaled(rows.scale)
    fmt = FORMATS[model.scale_format]
    om = (1 + fmt.u) ** 2 - 1  # the constant, and the product
    x = y.scaled(rows.scale)
    eta = fmt.underflow_unit(flush=model.flush_to_zero)
    size = rows.uncapped
    x = _Stage(
        (1 + om) * x.error + om * size + eta,
        x.variance + (fmt.u * size) ** 2,
        x.systematic + fmt.u * size + eta,  # the constant's rounding is the same for all keys
    )
    flags["O2"] = _exceeds(rows, size + x.error, fmt.largest)
    return _kept(rows, model, x, size, flags)


def _kept(
    rows: Rows, model: ArithmeticModel, x: _Stage, size: Array, flags: dict[str, Booleans]
) -> _Stage:
    """After the store that follows each step where the model says so."""
    if model.stored_scores is None or model.stores == "last":
        return x
    over = _exceeds(rows, size + x.error, FORMATS[model.stored_scores].largest)
    flags["O3"] = flags.get("O3", False) | over
    return x.stored(size, model.stored_scores)


def _product(rows: Rows, model: ArithmeticModel, placed: str, flags: dict[str, Booleans]) -> _Stage:
    """y, or x where the operands carry the scale."""
    moved = placed in ("query", "both")
    factor = rows.scale if moved else 1.0
    left = FORMATS[model.convert[0] if model.convert else model.operands]
    plain = placed != "both" and not model.convert
    right = FORMATS[model.input] if plain else left
    exact = products_are_exact(model.qk, left.name, right.name)
    acc = any_order(
        model.qk, np.array(rows.d), rows.d, exact_products=exact, flush=model.flush_to_zero
    )
    kappa = float(acc.kappa)
    size = factor * rows.dot_abs
    relative = _operand_error(model, placed)
    absolute = (
        acc.eta
        + _operand_underflow(rows, model, placed)
        + _unnormalised(rows, model, left.smallest_normal, right.smallest_normal)
    )
    if model.order == "sequential":
        error, variance = running_products(rows, model.qk, exact)
        error = np.minimum(factor * error, kappa * size)
        variance = factor**2 * variance
    else:
        error, variance = kappa * size, acc.unit**2 * max(rows.d, 1) * size**2
    random = not acc.biased
    operand = (1 + kappa) * relative * size
    once = 2 * FORMATS[model.operands].u ** 2 * size**2 if moved else 0.0
    # a kernel that may scale before may also scale after: then the unscaled sum must fit as well
    reach = max(1.0, factor) if placed == "both" else factor
    flags["O1"] = _exceeds(rows, (1 + kappa) * reach * rows.dot_abs, largest_finite(model.qk))
    return _Stage(
        error + operand + absolute,
        (variance if random else 0.0) + once + np.zeros(size.shape),
        operand + absolute + (0.0 if random else error),
    )


def _operand_error(model: ArithmeticModel, placed: str) -> float:
    """Relative change of a product q_l k_l by conversion and by scaling of the operands."""
    growth = 1.0
    if model.convert:
        name, mode = model.convert
        growth *= (1 + FORMATS[name].unit_roundoff(mode)) ** 2
    operand, constant = FORMATS[model.operands].u, FORMATS[model.scale_format].u
    if placed == "query":
        growth *= (1 + operand) * (1 + constant)
    if placed == "both":
        # sqrt(fl(scale)) rounds once and a half, twice; and so do both products
        growth *= (1 + operand) ** 2 * (1 + constant) ** 3
    return growth - 1


def _operand_underflow(rows: Rows, model: ArithmeticModel, placed: str) -> Array | float:
    """Absolute change of the sum where operands underflow when they are scaled or converted."""
    eta, factor = 0.0, 1.0
    if placed in ("query", "both"):
        eta = FORMATS[model.operands].underflow_unit(flush=model.flush_to_zero)
        factor = max(1.0, sqrt_scale(rows))
    if model.convert:
        eta += FORMATS[model.convert[0]].underflow_unit(flush=True)
    if model.flush_to_zero:  # units that flush results read subnormal operands as zero, too
        eta += FORMATS[model.softmax_format].smallest_normal
    if eta == 0.0:
        return 0.0
    q = np.abs(rows.q).sum(axis=2)[:, :, None]
    k = _with_sink_column(rows, np.abs(rows.k).sum(axis=2)[:, None, :])
    return np.asarray(2 * eta * (factor * (q + k) + rows.d * eta))


def _unnormalised(rows: Rows, model: ArithmeticModel, left: float, right: float) -> Array | float:
    if not isinstance(model.qk, TensorCore):
        return 0.0
    q = np.abs(rows.q).max(axis=2, initial=0.0)[:, :, None]
    k = _with_sink_column(rows, np.abs(rows.k).max(axis=2, initial=0.0)[:, None, :])
    return subnormal_operands(model.qk, rows.d, (left, q), (right, k))


def _with_sink_column(rows: Rows, per_key: Array) -> Array:
    if not rows.has_sink:
        return per_key
    return np.concatenate([per_key, np.zeros((len(per_key), 1, 1))], axis=2)


def _capped(rows: Rows, model: ArithmeticModel, x: _Stage) -> _Stage:
    """t = C tanh(x / C): division, tanh and product round; C itself may have been rounded."""
    cap, fmt = float(rows.softcap or 0.0), FORMATS[model.softmax_format]
    u, eta = fmt.u, fmt.underflow_unit(flush=model.flush_to_zero)
    argument = rows.uncapped / cap
    shift = ((1 + u) ** 3 * x.error + ((1 + u) ** 3 - 1) * rows.uncapped) / cap + eta
    nearest = np.maximum(argument - shift, 0.0)
    lipschitz = 1 / np.cosh(np.minimum(nearest, 350.0)) ** 2
    inner = (1 + 2 * model.tanh_ulps * u) * (1 + u) ** 2 - 1
    moved = lipschitz * shift * (1 + inner) + inner * np.tanh(argument)
    moved += model.tanh_absolute * (1 + u) ** 2
    error = cap * moved + (1 + cap) * eta
    # tanh stays within [-1, 1], whatever its argument
    error = np.minimum(error, 2 * cap * (1 + inner) + (1 + cap) * eta)
    capped = _Stage(error, np.zeros(error.shape), error)
    if model.stored_scores is None or model.stores == "last":
        return capped
    return capped.stored(cap * np.tanh(argument), model.stored_scores)


def _biased(rows: Rows, model: ArithmeticModel, x: _Stage) -> _Stage:
    fmt = FORMATS[model.softmax_format]
    x = x.rounded(rows.score, fmt.u)
    if model.exponential == "fma" and rows.bias is not None:
        # kernels that work in units of log2 multiply the bias by log2 e
        extra = 2 * fmt.u * rows.bias
        x = _Stage(x.error + extra, x.variance, x.systematic + extra)
    return x


def _finished(rows: Rows, model: ArithmeticModel, x: _Stage, flags: dict[str, Booleans]) -> _Stage:
    """The sink's own error, the last store, and the range of what the exponent receives."""
    if rows.has_sink:
        x = _sink_error(rows, model, x)
    if model.stored_scores is not None:
        fmt = FORMATS[model.stored_scores]
        if model.stores == "last" or rows.bias is not None or rows.has_sink:
            flags["O3"] = flags.get("O3", False) | _matters(rows, rows.score + x.error, fmt.largest)
            x = x.stored(rows.score, fmt.name)
    units = 1.5 if model.exponential == "fma" else 1.0  # log2 e
    flags["O2"] = flags.get("O2", False) | _matters(
        rows, units * (rows.score + x.error), FORMATS[model.softmax_format].largest
    )
    return x


def _sink_error(rows: Rows, model: ArithmeticModel, x: _Stage) -> _Stage:
    error, systematic, variance = x.error.copy(), x.systematic.copy(), x.variance.copy()
    fmt = FORMATS[model.softmax_format]
    error[:, :, -1] = 3 * fmt.u * rows.score[:, :, -1] + fmt.smallest
    systematic[:, :, -1] = error[:, :, -1]
    variance[:, :, -1] = 0.0
    return _Stage(error, variance, systematic)


def _exceeds(rows: Rows, size: Array, limit: float) -> Booleans:
    """Rows in which a live key is larger than the limit."""
    return np.asarray((rows.live & (size > limit)).any(axis=2, keepdims=True))


def _matters(rows: Rows, size: Array, limit: float) -> Booleans:
    """The same for finished scores: one that becomes -inf far below the maximum does no harm."""
    near = rows.live & (rows.distance <= _FAR + rows.score * 2.0**-3)
    return np.asarray((near & (size > limit)).any(axis=2, keepdims=True))


def exact_scores(rows: Rows) -> ScoreError:
    """The scores of a softmax: its inputs, exactly."""
    nothing = np.zeros(rows.p.shape)
    return ScoreError(nothing, nothing, nothing)
