"""Inputs that provoke rounding errors, in float64 values of a format; one head each."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable

import numpy as np

from tests.verify.bounds.simulator import Array, Problem, rounded
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
