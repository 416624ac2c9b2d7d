"""exp of the fast tier by Arb: table and polynomial over their domain, the kernel on samples."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

from references.enclosure import Array
from references.fast import exponential

Ball = Any


@pytest.fixture(autouse=True)
def _precision() -> Any:
    before, ctx.prec = ctx.prec, 400
    yield
    ctx.prec = before


def ball(x: float) -> Ball:
    mantissa, e = np.frexp(x)
    return arb(int(mantissa * 2**53)) * arb(2) ** int(e - 53)


def exactly(value: Fraction) -> Ball:
    return arb(value.numerator) / arb(value.denominator)


def test_table_holds_the_powers_of_two_within_2_to_the_minus_107() -> None:
    """All 1024 entries: |2^(j/1024) - (head + tail)| <= 2^-107, head in [1, 2), |tail| <= 2^-53."""
    for j in range(exponential.STEPS):
        head, tail = exponential.TABLE_HEAD[j], exponential.TABLE_TAIL[j]
        error = arb(2) ** (arb(j) / exponential.STEPS) - ball(head) - ball(tail)
        assert abs(error) < arb(2) ** -107
        assert 1.0 <= head < 2.0
        assert abs(tail) <= 2.0**-53


def test_step_parts_add_up_to_ln2_over_1024_on_their_grids() -> None:
    """head on 2^-42, middle on 2^-74, tail below 2^-75, the sum up to 2^-128."""
    head, middle, tail = exponential.STEP_HEAD, exponential.STEP_MIDDLE, exponential.STEP_TAIL
    step = arb(2).log() / exponential.STEPS
    assert float(head * 2.0**42).is_integer()
    assert float(middle * 2.0**74).is_integer()
    assert abs(tail) < 2.0**-75
    assert abs(step - ball(head) - ball(middle) - ball(tail)) < arb(2) ** -127
    assert abs(1 / step - ball(exponential.STEPS_PER_UNIT)) < arb(2) ** -42


def test_polynomial_is_within_2_to_the_minus_104_of_expm1_on_its_whole_domain() -> None:
    """|r| <= 2^-11.5 in 4096 balls that cover it: truncation and rounded coefficients together.

    The difference is a power series: coefficients' errors times r^n, n <= 7, and the rest of the
    exponential series, at most |r|^8 / 8! (1 + 2^-10).
    """
    e = exponential
    coefficients = [ball(c) for c in (e.C4, e.C5, e.C6, e.C7)]
    cubic = exactly(Fraction(1, 6)) - ball(e.C3) - ball(e.C3_TAIL)
    edge, cells = arb(2) ** -11.5, 4096
    for cell in range(cells):
        middle = edge * (2 * cell + 1 - cells) / cells
        r = arb(middle, edge / cells)
        error = abs(cubic * r**3)
        for n, c in enumerate(coefficients, start=4):
            error += abs((exactly(Fraction(1, int(np.prod(range(1, n + 1))))) - c) * r**n)
        error += abs(r**8) / 40320 * (1 + arb(2) ** -10)
        assert error < arb(2) ** -104


def relative_error(xh: float, xl: float, ph: float, pl: float) -> float:
    truth = (ball(xh) + ball(xl)).exp()
    return float(abs((ball(ph) + ball(pl)) / truth - 1).upper())


def samples(generator: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Arguments over [-300, 0]: uniform, log-uniform, and next to the edges between table steps."""
    uniform = -300.0 * generator.random(n)
    small = -np.exp2(generator.uniform(-60, 8.2, n))
    edges = -(generator.integers(0, 2**18, n) + 0.5) * np.log(2) / 1024
    xh = np.concatenate([uniform, small, edges, [0.0, -300.0]])
    return xh, xh * 2.0**-53 * generator.uniform(-1, 1, xh.size)


def test_exponentials_keep_their_stated_error() -> None:
    """|error| / exp <= 2^-100 + |x| 2^-102 and |pl| <= u ph, on 1500 arguments."""
    xh, xl = samples(np.random.default_rng(3), 500)
    ph, pl = np.empty_like(xh), np.empty_like(xh)
    exponential.exponentials(xh, xl, ph, pl, xh.size)
    for row in zip(xh, xl, ph, pl, strict=True):
        assert relative_error(*row) <= 2.0**-100 + abs(row[0]) * 2.0**-102
    assert (np.abs(pl) <= 2.0**-53 * ph).all()


def test_exponentials_below_their_domain_are_zero() -> None:
    """Below X_MIN and for -inf the result is 0, whose error is below 2^-432."""
    xh = np.array([-300.0001, -1e4, -1e300, -np.inf])
    ph, pl = np.empty(4), np.empty(4)
    exponential.exponentials(xh, np.zeros(4), ph, pl, 4)
    assert not ph.any()
    assert not pl.any()
    assert arb(exponential.X_MIN).exp() < ball(exponential.DROPPED)
