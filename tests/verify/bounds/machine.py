"""A machine that follows an arithmetic model to the letter, emulated in float64.

Every format has at most 24 bits here, so that one operation in float64 followed by one rounding is
the rounded operation (53 >= 2 * 24 + 2).  Errors of exp, log and tanh are drawn at random within
what the model allows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from verify.arithmetic import Accumulator, ArithmeticModel, Chain
from verify.formats import FORMATS, Mode

Array = NDArray[np.float64]


def rounded(x: Array, name: str, mode: Mode = "RN", flush: bool = False) -> Array:
    """x in a format; the two common cases by the hardware's own conversion."""
    if mode == "RN" and not flush and name in ("fp32", "fp16"):
        kind = np.float32 if name == "fp32" else np.float16
        with np.errstate(over="ignore"):
            return np.asarray(x, np.float64).astype(kind).astype(np.float64)
    return FORMATS[name].round(np.asarray(x, np.float64), mode, flush)


@dataclass
class Machine:
    """The model's operations; `extreme` pushes elementary functions to the end of their range."""

    model: ArithmeticModel
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def r(self, x: Array) -> Array:
        """One operation of the softmax."""
        return rounded(x, self.model.softmax_format, flush=self.model.flush_to_zero)

    def wrong(self, exact: Array, ulps: float) -> Array:
        """Correctly rounded, then off by up to ulps - 1/2 units of the last place."""
        fmt = FORMATS[self.model.softmax_format]
        value = self.r(exact)
        steps = np.rint(self.rng.uniform(-1, 1, np.shape(value)) * max(ulps - 0.5, 0.0))
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(value), value + steps * fmt.ulp(exact), value)

    def exp(self, x: Array) -> Array:
        model, fmt = self.model, FORMATS[self.model.softmax_format]
        with np.errstate(over="ignore", under="ignore"):
            exact = np.exp(x)
        if model.exp_relative is not None:
            off = self.rng.uniform(-1, 1, exact.shape) * (model.exp_relative - fmt.u)
            value = self.r(exact * (1 + off))
        else:
            value = np.maximum(self.wrong(exact, model.exp_ulps), 0.0)
        value = np.where(x == 0, 1.0, value)
        flush = model.flush_to_zero or model.flush_exp
        least = fmt.smallest_normal if flush else 0.0
        least = max(least, model.exp_zero_below or 0.0)
        return np.where(value < least, 0.0, value)

    def log(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            exact = np.log(x)
        value = np.where(x > 0, self.wrong(exact, self.model.log_ulps), -np.inf)
        return rounded(value, self.model.log_format or self.model.softmax_format)

    def tanh(self, x: Array) -> Array:
        value = self.wrong(np.tanh(x), self.model.tanh_ulps)
        if self.model.tanh_absolute:
            value = value + self.model.tanh_absolute * self.rng.choice((-1.0, 1.0), value.shape)
        return np.clip(value, -1.0, 1.0)


# --- accumulators -----------------------------------------------------------------------------


def accumulate(
    acc: Accumulator, start: Array, a: Array, b: Array, emin: tuple[float, float], flush: bool
) -> Array:
    """start + a @ b; a (m, K), b (K, c); emin: exponents below which operands stay unnormalised."""
    if isinstance(acc, Chain):
        return _chain(acc, start, a, b, flush)
    if not acc.promote:
        return _tensor_core(acc, start, a, b, emin)
    total = start
    for first in range(0, a.shape[1], acc.promote):
        some = slice(first, first + acc.promote)
        part = _tensor_core(acc, np.zeros(start.shape), a[:, some], b[some], emin)
        total = rounded(total + part, "fp32")
    return total


def _chain(acc: Chain, total: Array, a: Array, b: Array, flush: bool) -> Array:
    separate = FORMATS[acc.format].p < 24
    for i in range(a.shape[1]):
        product = a[:, i : i + 1] * b[i : i + 1]
        if separate:
            product = rounded(product, acc.format, acc.mode, flush)
        total = rounded(total + product, acc.format, acc.mode, flush)
    return total


def _tensor_core(
    acc: Accumulator, total: Array, a: Array, b: Array, emin: tuple[float, float]
) -> Array:
    assert not isinstance(acc, Chain)
    for first in range(0, a.shape[1], acc.products):
        left = a[:, None, first : first + acc.products]
        right = b.T[None, :, first : first + acc.products]
        exponent = _exponent(left, emin[0]) + _exponent(right, emin[1])
        product = left * right
        exponent = np.where(product == 0, -10000, exponent)
        largest = np.maximum(exponent.max(axis=2), _exponent(total, -126))
        unit = np.ldexp(1.0, np.maximum(largest, -133) - acc.fraction_bits)
        exact = np.trunc(product / unit[:, :, None]).sum(axis=2) + np.trunc(total / unit)
        total = rounded(exact * unit, acc.format, acc.mode)
    return total


def _exponent(x: Array, lowest: float) -> NDArray[np.int64]:
    _, e = np.frexp(x)
    return np.where(x == 0, -10000, np.maximum(e - 1, int(lowest))).astype(np.int64)


def row_total(model: ArithmeticModel, start: Array, x: Array) -> Array:
    """The row sum of a block, added to the running one."""

    def add(t: Array) -> Array:
        return rounded(t, model.row_sum.format, model.row_sum.mode, model.flush_to_zero)

    if model.row_sum_order == "pairwise":
        while x.shape[1] > 1:
            if x.shape[1] % 2:
                x = np.concatenate([x, np.zeros((x.shape[0], 1))], axis=1)
            x = add(x[:, ::2] + x[:, 1::2])
        return add(start + x.sum(axis=1))
    for i in range(x.shape[1]):
        start = add(start + x[:, i])
    return start
