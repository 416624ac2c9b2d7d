"""Integer draws: the same words everywhere, and distributions that are what they say."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from verify.integers import Draws

GOLDEN = ["0xcf81d8b10075dc17", "0x8561b839336c5415", "0x62bd715165f1d41d"]


def test_first_words_are_splitmix64_of_the_keyed_state() -> None:
    assert [hex(w) for w in Draws("0/attention/fp16").words((3,)).tolist()] == GOLDEN


def test_words_equal_a_plain_python_splitmix64() -> None:
    mask = 2**64 - 1
    state = int.from_bytes(hashlib.sha256(b"key").digest()[:8], "little")
    expected = []
    for _ in range(50):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        expected.append(z ^ (z >> 31))
    draws = Draws("key")
    assert draws.words((20,)).tolist() + draws.words((5, 6)).ravel().tolist() == expected


def test_streams_of_different_keys_differ_and_of_equal_keys_agree() -> None:
    one, two, other = (Draws(key).words((100,)) for key in ("a", "a", "b"))
    assert np.array_equal(one, two)
    assert not np.intersect1d(one, other).size


@pytest.mark.parametrize(("low", "high"), [(0, 2), (-5, 6), (0, 1), (-1000, 1000)])
def test_integers_cover_their_range_evenly(low: int, high: int) -> None:
    drawn = Draws(f"{low}{high}").integers(low, high, (200_000,))
    assert drawn.min() == low
    assert drawn.max() == high - 1
    counts = np.bincount(drawn - low, minlength=high - low)
    expected = drawn.size / (high - low)
    chi = float(((counts - expected) ** 2 / expected).sum())
    freedom = high - low - 1
    assert abs(chi - freedom) <= 5 * (2 * freedom) ** 0.5 + 1e-9


def test_signs_are_balanced() -> None:
    signs = Draws("signs").signs((100_000,))
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert abs(signs.sum()) < 5 * 100_000**0.5


def test_uniform_numbers_are_multiples_of_2_to_the_minus_30_below_1() -> None:
    x = Draws("uniform").uniform((100_000,))
    assert x.min() >= 0
    assert x.max() < 1
    assert np.array_equal(x * 2**30, np.rint(x * 2**30))
    assert abs(x.mean() - 0.5) < 5 / (12 * x.size) ** 0.5


def test_normal_numbers_have_mean_0_variance_1_and_are_exact() -> None:
    x = Draws("normal").normal((200_000,))
    assert np.array_equal(x * 2**17, np.rint(x * 2**17))
    assert np.abs(x).max() < 6
    assert abs(x.mean()) < 5 / x.size**0.5
    assert abs(x.var() - 1) < 5 * (2 / x.size) ** 0.5
    # Excess kurtosis of a sum of 12 uniforms: -1.2 / 12.
    assert abs((x**4).mean() - 2.9) < 0.05


def test_neighbouring_draws_are_uncorrelated() -> None:
    x = Draws("lag").normal((100_000,))
    for lag in (1, 2, 64):
        assert abs((x[:-lag] * x[lag:]).mean()) < 5 / x.size**0.5
