"""Inputs that provoke rounding errors, in float64 values of a format; one head each."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable

import numpy as np

from tests.verify.bounds.machine import Array, rounded
from tests.verify.bounds.simulator import Problem
from verify.formats import FORMATS

Make = Callable[[int, int, int, int, str, np.random.Generator], tuple[Array, Array, Array]]


def _normal(m: int, n: int, d: int, c: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    return rng.standard_normal((m, d)), rng.standard_normal((n, d)), rng.standard_normal((n, c))


def _tied(spread: float) -> Make:
    def make(
        m: int, n: int, d: int, c: int, fmt: str, rng: np.random.Generator
    ) -> tuple[Array, Array, Array]:
        q, k, v = _normal(m, n, d, c, rng)
        return q, np.tile(rng.standard_normal((1, d)), (n, 1)) + spread * k, v

    return make


def _times(q_factor: float, k_factor: float = 1.0, v_factor: float = 1.0) -> Make:
    def make(
        m: int, n: int, d: int, c: int, fmt: str, rng: np.random.Generator
    ) -> tuple[Array, Array, Array]:
        q, k, v = _normal(m, n, d, c, rng)
        return q_factor * q, k_factor * k, v_factor * v

    return make


def _ladder(low: float, high: float, first: float, tail: float) -> Make:
    """Exact scores from -low to -high after one key at 0."""

    def make(
        m: int, n: int, d: int, c: int, fmt: str, rng: np.random.Generator
    ) -> tuple[Array, Array, Array]:
        q, k, v = np.zeros((m, d)), np.zeros((n, d)), np.abs(rng.standard_normal((n, c)))
        q[:, 0] = math.sqrt(d)
        k[:, 0] = -np.linspace(low, high, n)
        k[0, 0] = 0.0
        v[0] *= first
        v[1:] *= tail
        return q, k, v

    return make


def _stairs(start: float, stop: float) -> Make:
    def make(
        m: int, n: int, d: int, c: int, fmt: str, rng: np.random.Generator
    ) -> tuple[Array, Array, Array]:
        q, k, v = _normal(m, n, d, c, rng)
        return np.abs(q), np.linspace(start, stop, n)[:, None] + 2.0**-5 * k, v

    return make


def _offset(level: float) -> Make:
    def make(
        m: int, n: int, d: int, c: int, fmt: str, rng: np.random.Generator
    ) -> tuple[Array, Array, Array]:
        q, k, v = _normal(m, n, d, c, rng)
        k *= 0.25
        k[:, 0], q[:, 0] = level, 32.0
        return q, k, v

    return make


def _one_hot(
    m: int, n: int, d: int, c: int, fmt: str, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    q, k, v = _normal(m, n, d, c, rng)
    k[n // 3] = 3 * q[0]
    return q, k, v


def _v_cancel(
    m: int, n: int, d: int, c: int, fmt: str, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    q, k, v = _tied(2.0**-4)(m, n, d, c, fmt, rng)
    sign = np.where(np.arange(n)[:, None] % 2 == 0, 1.0, -1.0)
    return q, k, sign * (100 + np.repeat(v[: -(-n // 2)], 2, axis=0)[:n])


def _qk_cancel(
    m: int, n: int, d: int, c: int, fmt: str, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    q, k, v = _normal(m, n, d, c, rng)
    half = d // 2
    q[:, half : 2 * half], k[:, half : 2 * half] = q[:, :half], -k[:, :half]
    q, k = 8 * q, 8 * k
    k[:, 0] += 0.125 * rng.standard_normal(n)
    return q, k, v


def _mixed_exponents(
    m: int, n: int, d: int, c: int, fmt: str, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    q, k, v = _normal(m, n, d, c, rng)
    return (
        q * 2.0 ** rng.integers(-6, 7, (1, d)), k * 2.0 ** rng.integers(-6, 7, (1, d)) * 0.25, v
    )  # fmt: skip


def _subnormal(
    m: int, n: int, d: int, c: int, fmt: str, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    q, k, v = _normal(m, n, d, c, rng)
    least, most = FORMATS[fmt].smallest_normal, FORMATS[fmt].largest
    small = least * 2.0 ** rng.integers(-4, 12, v.shape)
    return q * least * 0.5, k * min(1 / least, most / 64) * 0.125, v * small


def _overflowing_products(
    m: int, n: int, d: int, c: int, fmt: str, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    _, k, v = _normal(m, n, d, c, rng)
    return np.full((m, d), 64.0), np.where(np.arange(d) % 2 == 0, 64.0, -64.0) + k, v


def _stagnating(
    m: int, n: int, d: int, c: int, fmt: str, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    return _ladder(7.6, 7.6, 1.0, 1.0)(m, n, d, c, fmt, rng)


def _one_sign(
    m: int, n: int, d: int, c: int, fmt: str, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    q, k, v = _normal(m, n, d, c, rng)
    return q, k, 1 + np.abs(v)


def _constant(
    m: int, n: int, d: int, c: int, fmt: str, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    q, k, v = _normal(m, n, d, c, rng)
    return q, k, np.tile(v[:1], (n, 1))


def _large_values(
    m: int, n: int, d: int, c: int, fmt: str, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    q, k, v = _normal(m, n, d, c, rng)
    return q, 0.1 * k, np.sign(v) * 60000.0 * rng.uniform(0.5, 1, v.shape)


def _all_negative(
    m: int, n: int, d: int, c: int, fmt: str, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    q, k, v = _normal(m, n, d, c, rng)
    return 8 * np.abs(q), -np.abs(k), v


FAMILIES: dict[str, Make] = {
    "normal": _times(1.0),
    "sharp": _times(4.0),
    "large_scores": _times(16.0, 8.0),
    "near_ties": _tied(2.0**-6),
    "all_equal": _tied(0.0),
    "one_hot": _one_hot,
    "values_cancel": _v_cancel,
    "constant_values": _constant,
    "products_cancel": _qk_cancel,
    "stairs_up": _stairs(0.0, 2.0),
    "stairs_down": _stairs(2.0, 0.0),
    "p_subnormal": _ladder(8.0, 18.0, 2.0**-10, 4.0),
    "p_underflow": _ladder(17.0, 120.0, 1.0, 100.0),
    "sum_stagnates": _stagnating,
    "tiny_values": _times(1.0, 1.0, 2.0**-13),
    "huge_offset": _offset(64.0),
    "negative_offset": _offset(-64.0),
    "one_sign": _one_sign,
    "mixed_exponents": _mixed_exponents,
    "products_overflow": _overflowing_products,
    "large_values": _large_values,
    "all_negative": _all_negative,
    "subnormal_inputs": _subnormal,
}
# The same data under options of the operation.
OPTIONS = ("masked", "finite_mask", "causal", "softcap", "sink", "everything")


def seed_of(*key: object) -> int:
    return zlib.crc32(repr(key).encode())


def problem(family: str, shape: tuple[int, int, int, int], fmt: str, seed: int = 0) -> Problem:
    """A problem of shape (m, n, d, d_v) in a format; `family` is one of FAMILIES or OPTIONS."""
    m, n, d, c = shape
    rng = np.random.default_rng(seed_of(family, shape, seed))
    make = FAMILIES.get(family, FAMILIES["normal"])
    most = FORMATS[fmt].largest
    q, k, v = (rounded(np.clip(x, -most, most), fmt) for x in make(m, n, d, c, fmt, rng))
    visible = np.ones((m, n), dtype=bool)
    found = Problem(q, k, v, 1 / math.sqrt(d), visible)
    return _with_option(found, family, fmt, rng)


def _with_option(found: Problem, family: str, fmt: str, rng: np.random.Generator) -> Problem:
    m, n = found.visible.shape
    visible, bias, softcap, sink = found.visible, None, None, None
    if family in ("masked", "everything"):
        visible = rng.random((m, n)) < 0.5
        visible[0] = False  # an empty row
    if family == "causal":
        visible = np.arange(n) <= (np.arange(m) * (n // m))[:, None]
    if family == "finite_mask":
        bias = rounded(np.where(rng.random((m, n)) < 0.5, -10000.0, 0.0), fmt)
        bias[:, 0] = 0.0
    if family == "everything":
        bias = rounded(3 * rng.standard_normal((m, n)), fmt)
    if family in ("softcap", "everything"):
        softcap = 2.0
    if family in ("sink", "everything"):
        sink = float(rounded(np.array(1.7), fmt))
    return Problem(found.q, found.k, found.v, found.scale, visible, bias, softcap, sink)


# --- probes: engineered inputs that tell contracts apart --------------------------------------


def probes(fmt: str, n: int, d: int, c: int) -> dict[str, Problem]:
    """Probes, most of one query row; u is the input format's roundoff, big = 1/u."""
    u = FORMATS[fmt].u
    found = {
        "products_stagnate": _products_stagnate(1 / u, d, c, fmt),
        "values_stagnate": (np.zeros((1, d)), np.zeros((n, d)), _first_is(np.ones((n, c)), 1 / u)),
        "sum_stagnates": (np.zeros((1, d)), np.zeros((4 * n, d)), np.ones((4 * n, c))),
        "one_third": (np.zeros((1, d)), np.zeros((3, d)), np.ones((3, c))),
        "half_bias": _half_bias(u, n, d, c, fmt),
        "large_shift": _large_shift(n, d, c),
        "exp_ladder": _exp_ladder(d, c),
    }
    return {name: _plain(parts, fmt) for name, parts in found.items()}


def _plain(parts: tuple[Array, Array, Array], fmt: str) -> Problem:
    q, k, v = (rounded(x, fmt) for x in parts)
    return Problem(q, k, v, 1 / math.sqrt(q.shape[1]), np.ones((len(q), len(k)), dtype=bool))


def _first_is(x: Array, value: float) -> Array:
    x[0] = value
    return x


def _products_stagnate(big: float, d: int, c: int, fmt: str) -> tuple[Array, Array, Array]:
    """Two equal exact scores, one of them a large product and many ones: O = 0."""
    q, k, v = np.ones((1, d)), np.ones((2, d)), np.ones((2, c))
    total = float(rounded(np.array(big + d - 1), fmt))
    k[0, 0] = big
    k[0, d - 1] += total - (big + d - 1)
    k[1], v[1] = 0.0, -1.0
    k[1, 0] = total
    return q, k, v


def _half_bias(u: float, n: int, d: int, c: int, fmt: str) -> tuple[Array, Array, Array]:
    """Every P rounds down by almost u; values put O just above a rounding boundary."""
    q, k, v = np.zeros((1, d)), np.zeros((n, d)), np.ones((n, c))
    rest = math.log(0.5 * (1 + 0.97 * u)) * math.sqrt(d)
    for column, unit in enumerate((1.0, 2.0**8, 2.0**12)):
        q[:, column] = 1 / unit
        k[1:, column] = rounded(np.array(rest * unit), fmt)
        rest -= k[1, column] / unit
    for column in range(c):
        above = np.arange(n - 1) < (n - 1) * (0.5 + 0.48 * column / c)
        v[1:, column] = np.where(above, 1 + 2 * u, 1.0)
    return q, k, v


def _large_shift(n: int, d: int, c: int) -> tuple[Array, Array, Array]:
    """Scores near +90 and values that cancel."""
    q, k = np.zeros((1, d)), np.zeros((n, d))
    q[:, 0], k[:, 0] = 32.0, 32 + np.arange(n) % 3 * 0.25
    return q, k, np.where(np.arange(n)[:, None] % 2 == 0, 1.0, -1.0) * np.ones((1, c))


def _exp_ladder(d: int, c: int) -> tuple[Array, Array, Array]:
    """Two keys: the output is a logistic function of t, on a grid of t."""
    q, k, v = np.zeros((64, d)), np.zeros((2, d)), np.zeros((2, c))
    q[:, 0] = np.linspace(0, 40, 64)
    k[1, 0], v[1] = -1.0, 1.0
    return q, k, v
