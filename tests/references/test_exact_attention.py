"""Attention against the definition evaluated by Python's decimal module, on cases made by hand."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from references import arb, exact
from references.enclosure import EXACT, Enclosure

pytestmark = pytest.mark.parametrize("route", [exact, arb], ids=["exact", "arb"])

Q = np.array([[0.75, -3.0]])
K = np.array([[1.0, 2.0], [0.5, -1.0], [-4.0, 0.125]])
V = np.array([[1.0, 1e30], [3.0, -1e30], [-0.1, 7.0]])


def _tanh(x: Decimal) -> Decimal:
    up, down = x.exp(), (-x).exp()
    return (up - down) / (up + down)


def _definition(
    scale: Decimal, softcap: Decimal | None, bias: list[float], sink: float | None
) -> tuple[list[Decimal], Decimal]:
    """O and LSE of the single row Q, unshifted, as the definition reads."""
    scores = []
    for key, b in zip(K.tolist(), bias, strict=True):
        t = scale * sum(Decimal(x) * Decimal(y) for x, y in zip(Q[0].tolist(), key, strict=True))
        t = t if softcap is None else softcap * _tanh(t / softcap)
        scores.append(t + Decimal(b))
    weights = [s.exp() for s in scores]
    total = sum(weights, Decimal(0) if sink is None else Decimal(sink).exp())
    columns = [
        sum(w * Decimal(x) for w, x in zip(weights, column, strict=True)) for column in V.T.tolist()
    ]
    return [Decimal(c) / total for c in columns], total.ln()


def _outside(truth: Enclosure, values: list[Decimal]) -> list[int]:
    """The elements whose value is outside its enclosure."""
    words = zip(truth.hi.ravel(), truth.lo.ravel(), truth.radius.ravel(), values, strict=True)
    return [
        i
        for i, (hi, lo, radius, value) in enumerate(words)
        if abs(Fraction(float(hi)) + Fraction(float(lo)) - Fraction(value))
        > Fraction(float(radius))
    ]


@pytest.mark.parametrize("sink", [None, 1.5])
@pytest.mark.parametrize("bias", [[0.0, 0.0, 0.0], [0.5, -20.0, 3.0]], ids=["plain", "bias"])
@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("scale", [None, 0.1])
def test_attention_encloses_the_definition_in_decimal(
    route: Any, scale: float | None, softcap: float | None, bias: list[float], sink: float | None
) -> None:
    """Every combination of scale, softcap, bias and sink: the value at 80 digits lies inside."""
    truth = route.attention(
        Q[None, None],
        K[None, None],
        V[None, None],
        scale=scale,
        softcap=softcap,
        bias=np.array(bias),
        sinks=None if sink is None else np.array([sink]),
    )
    with localcontext() as context:
        context.prec = 80
        factor = 1 / Decimal(2).sqrt() if scale is None else Decimal(scale)
        cap = None if softcap is None else Decimal(softcap)
        output, lse = _definition(factor, cap, bias, sink)
    assert _outside(truth.output, output) == []
    assert _outside(truth.lse, [lse]) == []
    assert (truth.output.radius <= 2.0**-100 * truth.magnitude).all()


def test_attention_of_equal_scores_is_the_mean(route: Any) -> None:
    """q = 0: O is the mean of the values, LSE is ln 3."""
    truth = route.attention(np.zeros((1, 1, 1, 2)), K[None, None], V[None, None])
    with localcontext() as context:
        context.prec = 80
        means = [sum(map(Decimal, column)) / Decimal(3) for column in V.T.tolist()]
        assert _outside(truth.output, means) == []
        assert _outside(truth.lse, [Decimal(3).ln()]) == []


def test_attention_says_which_route_made_a_row(route: Any) -> None:
    """The tier of every row is that of the route."""
    truth = route.attention(Q[None, None], K[None, None], V[None, None])
    assert (truth.output.tier == EXACT).all() == (route is exact)
    assert truth.output.tier.shape == truth.lse.tier.shape == (1, 1, 1)
