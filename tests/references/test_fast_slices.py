"""Slices make up their number exactly, and no partial sum of their products leaves 2^53 units."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from references.enclosure import Array
from references.fast import prepared, slicing, weights
from references.fast.doubledouble import divide, multiply


def wide(seed: int, shape: tuple[int, int], spread: float, dtype: str = "float32") -> Array:
    generator = np.random.default_rng(seed)
    x = generator.standard_normal(shape) * np.exp2(generator.uniform(-spread, 0, shape))
    x[generator.random(shape) < 0.1] = 0.0
    return x.astype(dtype).astype(np.float64)


SPREADS = pytest.mark.parametrize("spread", [0.0, 4.0, 30.0, 100.0])


def rebuilt(cut: slicing.Cut, x: Array) -> Array:
    """head + list, and that the list's sums are exact."""
    total = cut.head[: len(x)].copy()
    for j in range(len(x)):
        for t in range(cut.start[j], cut.start[j + 1]):
            total[j, cut.column[t]] += cut.middle[t] + cut.tail[t]
    return total


def lowest_unit(x: Array) -> float:
    """The largest power of two that divides every element."""
    parts = [Fraction(float(value)) for value in x.ravel() if value]
    lowest = [Fraction(f.numerator & -f.numerator, f.denominator) for f in parts]
    return float(min(lowest, default=Fraction(1)))


@SPREADS
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_keys_and_list_make_up_k(spread: float, dtype: str) -> None:
    """head + middle + tail = k for every element, whatever the exponents."""
    k = wide(1, (50, 33), spread, dtype)
    assert np.array_equal(rebuilt(prepared.prepare_keys(k).cut, k), k)


@SPREADS
def test_values_and_list_make_up_v(spread: float) -> None:
    """The same by columns, with n_k not a multiple of the chunk."""
    v = wide(2, (150, 7), spread)
    values = prepared.prepare_values(v)
    assert np.array_equal(rebuilt(values.cut, v), v)
    assert not values.cut.head[150:].any()


@SPREADS
def test_products_with_keys_stay_within_53_bits(spread: float) -> None:
    """2^bits sum |head| and 2^bits sum |middle| are at most 2^53 units, in every row."""
    k = wide(3, (40, 65), spread)
    keys = prepared.prepare_keys(k)
    for j in range(len(k)):
        head = keys.cut.head[j]
        assert np.abs(head).sum() * 2.0**keys.bits <= 2.0**53 * lowest_unit(head)
        middle = keys.cut.middle[keys.cut.start[j] : keys.cut.start[j + 1]]
        assert np.abs(middle).sum() * 2.0**keys.bits <= 2.0**53 * lowest_unit(middle)


@SPREADS
def test_products_with_values_stay_within_53_bits(spread: float) -> None:
    """The same for every chunk and column, and for a column's whole list."""
    v = wide(4, (200, 5), spread)
    values = prepared.prepare_values(v)
    for d in range(5):
        for chunk in values.cut.head.reshape(-1, prepared.CHUNK, 5)[:, :, d]:
            assert np.abs(chunk).sum() * 2.0**values.bits <= 2.0**53 * lowest_unit(chunk)
        middle = values.cut.middle[values.cut.column == d]
        assert np.abs(middle).sum() * 2.0**values.bits <= 2.0**53 * lowest_unit(middle)


@SPREADS
@pytest.mark.parametrize("slices", [1, 2])
def test_queries_and_leftovers_make_up_q(spread: float, slices: int) -> None:
    """slices + one more + remainder = q exactly; at most 2^bits units in a slice."""
    q, bits = wide(5, (9, 20), spread), 18
    rows, d = q.shape
    first, rest, left = np.empty((d, slices * rows)), np.empty((d, rows)), np.empty(2 * d * rows)
    size, sums, kept_rows = np.empty(rows), np.empty(rows), np.empty(rows, np.int64)
    kept = slicing.cut_queries(q, bits, first, left, rest, size, kept_rows, sums)
    parts = first.reshape(d, slices, rows)
    total = parts.sum(axis=1)
    after = left[: 2 * d * kept].reshape(d, 2, kept)
    total[:, kept_rows[:kept]] += after.sum(axis=1)
    assert np.array_equal(total, q.T)
    assert np.array_equal(parts[:, 0] + rest, q.T)
    for s in range(slices):
        grid = size * 2.0 ** -(bits + s * (bits + 1.0))
        units = parts[:, s] / np.where(grid > 0, grid, 1.0)
        assert np.array_equal(units, np.rint(units))
        assert np.abs(units).max() <= 2.0**bits


@pytest.mark.parametrize("slices", [3, 4])
@pytest.mark.parametrize("bits", [20, 23])
def test_weights_in_slices_are_exact_but_for_one_rounding(slices: int, bits: int) -> None:
    """They sum to p up to u of the last; all but the last: at most 2^bits units; sums add up."""
    generator = np.random.default_rng(6)
    keys, rows = 40, 3
    ph = np.exp2(-generator.exponential(20.0, keys * rows))
    ph[:4] = 1.0, 1.0 - 2.0**-53, 2.0**-bits * 1.5, 2.0**-300
    pl = ph * 2.0**-53 * generator.uniform(-1, 1, ph.size)
    p, sums = np.empty((keys, slices, rows)), np.zeros((7, rows))
    weights.cut_weights(ph, pl, keys, bits, prepared.GROUP, p, sums)
    lasts = Fraction(0)
    for place, (high, low) in enumerate(zip(ph, pl, strict=True)):
        parts = p[place // rows, :, place % rows]
        error = abs(sum(map(Fraction, parts)) - Fraction(high) - Fraction(low))
        assert error <= Fraction(abs(parts[-1])) / 2**53
        for s, part in enumerate(parts[:-1]):
            units = part * 2.0 ** (bits + s * bits + min(s, 1))
            assert units == np.rint(units)
            assert abs(units) <= 2.0**bits
        lasts += Fraction(abs(parts[-1]))
    assert sum(map(Fraction, sums[5])) >= lasts * (1 - Fraction(1, 2**40))
    assert np.array_equal(sums[0], p[:, 0].sum(axis=0))


def test_survey_sees_every_significand_bit() -> None:
    """float16 numbers are narrow, float32 numbers are not; one wide element is enough."""
    sums, columns = np.empty(4), np.empty((8, 4))
    narrow = wide(7, (4, 4), 10.0, "float16")
    assert slicing.survey(narrow, 64, sums, columns) & slicing.WIDE_BITS == 0
    narrow[2, 2] = 1.0 + 2.0**-23
    assert slicing.survey(narrow, 64, sums, columns) & slicing.WIDE_BITS != 0


def test_double_double_products_and_quotients_keep_their_bounds() -> None:
    """multiply up to 8 u^2, divide up to 32 u^2 of the result."""
    generator = np.random.default_rng(8)
    for _ in range(300):
        a, b = (
            float(x) for x in generator.standard_normal(2) * 2.0 ** generator.integers(-9, 9, 2)
        )
        al, bl = (float(x * 2.0**-53 * generator.uniform(-1, 1)) for x in (a, b))
        left, right = Fraction(a) + Fraction(al), Fraction(b) + Fraction(bl)
        product, quotient = (sum(map(Fraction, f(a, al, b, bl))) for f in (multiply, divide))
        assert abs(product - left * right) <= abs(left * right) * 8 / 2**106
        assert abs(quotient - left / right) <= abs(left / right) * 32 / 2**106
