"""Formats: exhaustive for 8 and 16 bits, against NumPy and exact rationals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from verify.errors import UsageError
from verify.formats import BFLOAT16, BINARY16, BINARY32, FORMATS, Format, format_named

TOY = Format("toy", 3, 3)
SMALL = [f for f in FORMATS.values() if f.width <= 16] + [TOY]


def all_bits(fmt: Format) -> np.ndarray:
    return np.arange(2**fmt.width, dtype=np.uint64).astype(fmt.container)


@pytest.mark.parametrize("fmt", SMALL, ids=lambda f: f.name)
def test_encode_inverts_decode_on_every_bit_pattern(fmt: Format) -> None:
    """All bit patterns survive a round trip; NaNs come back as a NaN."""
    bits = all_bits(fmt)
    values = fmt.decode(bits)
    again = fmt.encode(values)
    number = ~np.isnan(values)
    assert np.array_equal(again[number], bits[number])
    assert np.isnan(fmt.decode(again[~number])).all()


def test_binary16_decodes_as_numpy_does() -> None:
    """All 65,536 patterns agree with the hardware's half type."""
    bits = all_bits(BINARY16)
    assert np.array_equal(
        BINARY16.decode(bits), bits.view(np.float16).astype(np.float64), equal_nan=True
    )


def test_bfloat16_is_the_upper_half_of_binary32() -> None:
    """All 65,536 patterns agree with binary32 words whose low half is zero."""
    bits = all_bits(BFLOAT16)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        single = (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    assert np.array_equal(BFLOAT16.decode(bits), single, equal_nan=True)


@pytest.mark.parametrize("fmt", SMALL, ids=lambda f: f.name)
def test_round_is_correct_at_and_around_every_midpoint(fmt: Format) -> None:
    """Between all neighbours: below the midpoint down, above it up, on it to even."""
    values = np.unique(fmt.decode(all_bits(fmt)))
    values = values[np.isfinite(values)]
    low, high = values[:-1], values[1:]
    middle = (low + high) / 2
    even = np.where(fmt.encode(low) % 2 == 0, low, high)
    assert np.array_equal(fmt.round(np.nextafter(middle, -np.inf)), low)
    assert np.array_equal(fmt.round(np.nextafter(middle, np.inf)), high)
    assert np.array_equal(fmt.round(middle), even)
    truncated = np.where(middle > 0, low, high)
    assert np.array_equal(fmt.round(middle, "RZ"), truncated)


@pytest.mark.parametrize("fmt", SMALL, ids=lambda f: f.name)
def test_ulp_is_the_gap_to_the_next_value(fmt: Format) -> None:
    """ulp at every positive value is the distance to its upper neighbour."""
    values = np.unique(np.abs(fmt.decode(all_bits(fmt))))
    values = values[np.isfinite(values)]
    assert np.array_equal(fmt.ulp(values[:-1]), np.diff(values))
    assert fmt.ulp(np.zeros(1))[0] == fmt.smallest


def test_ulp_just_below_a_power_of_two_is_that_of_the_lower_binade() -> None:
    """The second word decides on which side of 1 the real number lies."""
    ulps = BINARY16.ulp(np.array([1.0, 1.0]), np.array([-(2.0**-60), 2.0**-60]))
    assert list(ulps) == [2.0**-11, 2.0**-10]


@pytest.mark.parametrize("fmt", [BINARY16, BFLOAT16, BINARY32], ids=lambda f: f.name)
def test_round_enclosure_decides_with_the_second_word(fmt: Format) -> None:
    """hi on a midpoint: the sign of lo decides; with a radius across the midpoint nothing does."""
    middle = np.array([1.0 + fmt.u])
    none = np.zeros(1)
    up, decided = fmt.round_enclosure(middle, np.array([2.0**-70]), none)
    down, _ = fmt.round_enclosure(middle, np.array([-(2.0**-70)]), none)
    assert decided[0]
    assert (down[0], up[0]) == (1.0, 1.0 + 2 * fmt.u)
    _, decided = fmt.round_enclosure(middle, np.array([2.0**-70]), np.array([2.0**-69]))
    assert not decided[0]


def test_round_enclosure_agrees_with_rationals() -> None:
    """Random hi + lo: the result is the nearest value by exact arithmetic."""
    generator = np.random.default_rng(1)
    hi = generator.standard_normal(300) * 2.0 ** generator.integers(-30, 10, 300)
    lo = hi * 2.0**-54 * generator.uniform(-1, 1, 300)
    values, decided = BINARY16.round_enclosure(hi, lo, np.zeros(300))
    assert decided.all()
    grid = np.unique(BINARY16.decode(all_bits(BINARY16)))
    grid = grid[np.isfinite(grid)]
    for h, low, value in zip(hi, lo, values, strict=True):
        exact = Fraction(float(h)) + Fraction(float(low))
        near = grid[max(np.searchsorted(grid, h) - 2, 0) : np.searchsorted(grid, h) + 2]
        best = min(abs(Fraction(float(g)) - exact) for g in near)
        assert abs(Fraction(float(value)) - exact) == best


def test_thresholds_are_those_of_the_standards() -> None:
    """Largest, smallest and unit roundoff as IEEE 754 and OCP state them."""
    assert (BINARY16.largest, BINARY16.smallest, BINARY16.u) == (65504.0, 2.0**-24, 2.0**-11)
    assert (BINARY32.largest, BINARY32.emin) == (float(np.finfo(np.float32).max), -126)
    assert (FORMATS["e4m3"].largest, FORMATS["e5m2"].largest) == (448.0, 57344.0)
    assert BINARY16.overflow_threshold == 65520.0


def test_encode_refuses_a_value_that_the_format_does_not_hold() -> None:
    """The message names the value and the remedy."""
    with pytest.raises(UsageError, match=r"0\.1 is not a value of fp16; round it first"):
        BINARY16.encode(np.array([1.0, 0.1]))


def test_unknown_format_is_named_with_the_known_ones() -> None:
    """A typo is answered with the list."""
    assert format_named("float16") is BINARY16
    with pytest.raises(UsageError, match="unknown format 'fp17'; known: fp16, bf16"):
        format_named("fp17")
