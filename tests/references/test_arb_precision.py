"""Arb's route: its precision is borrowed, its words are outward, and it gives up honestly."""

from __future__ import annotations

import sys
from fractions import Fraction

import flint
import numpy as np
import pytest

from references import arb
from references.arb.balls import integers, words
from references.arb.precision import ladder, precision
from references.enclosure import Array
from tests.references.test_arb_agreement import _cases

MODULE = sys.modules[arb.attention.__module__]


def test_precision_of_flint_is_given_back() -> None:
    """After success and after an error, flint.ctx.prec is what it was."""
    before = flint.ctx.prec
    arb.softmax(np.array([[1.0, 2.0]]))
    assert flint.ctx.prec == before
    with pytest.raises(ZeroDivisionError), precision(999):
        raise ZeroDivisionError
    assert flint.ctx.prec == before


def test_ladder_doubles_up_to_4096_bits_and_tries_at_least_once() -> None:
    """160, 320, ..., 2560 by default; a first precision above the cap is still tried."""
    assert list(ladder(160, 0)) == [160, 320, 640, 1280, 2560]
    assert list(ladder(4000, 1000)) == [5000]


def test_a_row_that_stays_wide_is_reported_as_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no precision suffices the radius is +inf: nothing is claimed."""
    q, k, v, options = _cases()["plain"]
    monkeypatch.setattr(MODULE, "ladder", lambda *_: iter([20, 40]))
    truth = arb.attention(q, k, v, **options)
    assert np.isinf(truth.output.radius).all()
    assert np.isinf(truth.lse.radius).all()


def test_only_the_wide_rows_climb(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that 160 bits cannot enclose is enclosed by more; it does not spoil its neighbours."""
    q = np.array([1.0, 0.0]).reshape(1, 1, 2, 1)
    k = np.array([3.0, -3.0]).reshape(1, 1, 2, 1) * 2.0**120
    v = np.array([1.0, -1.0]).reshape(1, 1, 2, 1)
    bias = np.array([-3.0, 3.0]) * 2.0**120  # cancels the first row's scores when scale is 1
    bias = np.stack([bias * 0.1, bias * 0])[None, None]
    monkeypatch.setattr(MODULE, "FIRST_BITS", 20)
    truth = arb.attention(q, k, v, scale=0.1, bias=bias)
    assert np.isfinite(truth.output.radius).all()


@pytest.mark.parametrize(
    "x",
    [
        np.array([[1.5, -2.25], [0.0, 3e38]]),
        np.array([[5e-324, 1.7e308], [-1.0, 1e-40]]),
        np.array([[-7.0, 1024.0]]),
        np.zeros((2, 2)),
        np.zeros((0, 3)),
    ],
    ids=["mixed", "extreme", "integers", "zeros", "empty"],
)
def test_integers_are_the_matrix_exactly(x: Array) -> None:
    """integers * 2^exponent = x for any finite float64."""
    whole, exponent = integers(x)
    unit = Fraction(2) ** exponent
    assert [[n * unit for n in row] for row in whole] == [
        [Fraction(f) for f in r] for r in x.tolist()
    ]


def test_words_enclose_both_ends_of_the_ball() -> None:
    """Every number of the ball is within radius of hi + lo; an exact ball has radius 0."""
    rng = np.random.default_rng(0)
    for exponent in [-1200, -1074, -1022, -300, 0, 300, 1000]:
        with precision(200):
            unit = flint.arb(2) ** exponent
            balls = [
                flint.arb(mid, rad) * unit
                for mid, rad in zip(rng.standard_normal(9), np.geomspace(1e-50, 2, 9), strict=True)
            ]
            for ball, hi, lo, radius in zip(balls, *words(balls), strict=True):
                assert abs(ball - hi - lo) <= radius
    with precision(100):
        third = flint.arb(1) / 3
        hi, lo, radius = words(
            [flint.arb(3), flint.arb(0), flint.arb("nan"), third.exp() ** 1000000]
        )
        assert hi.tolist()[:2] == [3.0, 0.0]
        assert radius.tolist() == [0.0, 0.0, np.inf, np.inf]
        assert (lo == 0).all()
