"""softmax, log_softmax and logsumexp against closed forms computed by Python's decimal module."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from types import ModuleType

import numpy as np
import pytest

from references import arb, exact
from references.enclosure import FINITE, NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, Enclosure
from references.exact.precision import working_precision
from references.exact.softmax import _shift
from tests.references.test_exact_overlap import disagreements

SEED = np.array([[1000.0, 1001.0, 999.0]])
ROUTES = pytest.mark.parametrize("route", [exact, arb], ids=["exact", "arb"])
INF = np.inf


def _closed_form() -> list[Decimal]:
    """1 / (1 + e + 1/e) times 1, e, 1/e: the softmax of the seed, to 60 digits."""
    with localcontext() as context:
        context.prec = 60
        e = Decimal(1).exp()
        return [x / (1 + e + 1 / e) for x in (Decimal(1), e, 1 / e)]


def _encloses(truth: Enclosure, place: tuple[int, ...], value: Decimal) -> bool:
    words = Fraction(float(truth.hi[place])) + Fraction(float(truth.lo[place]))
    return abs(Fraction(value) - words) <= Fraction(float(truth.radius[place]))


@ROUTES
def test_softmax_of_the_seed_case_encloses_the_closed_form(route: ModuleType) -> None:
    """softmax([1000, 1001, 999]) = [0.244728..., 0.665241..., 0.090031...], narrowly."""
    truth = route.softmax(SEED)
    assert np.allclose(truth.hi, [[0.244728, 0.665241, 0.090031]], rtol=0, atol=5e-7)
    assert all(_encloses(truth, (0, i), p) for i, p in enumerate(_closed_form()))
    assert (truth.radius <= 2.0**-100 * truth.hi).all()


def test_softmax_of_the_seed_case_has_forty_digits() -> None:
    """Before it is cut to two words, the result agrees with the closed form to 40 digits."""
    with working_precision(150) as mp:
        row = _shift(mp, SEED[0].tolist())
        digits = [mp.nstr(w / row.total, 40) for w in row.weights]
    with localcontext() as context:
        context.prec = 40
        assert [+Decimal(d) for d in digits] == [+p for p in _closed_form()]


@ROUTES
def test_logarithms_of_the_seed_case_enclose_the_closed_form(route: ModuleType) -> None:
    """LSE([1000, 1001, 999]) = 1000 + ln(1 + e + 1/e); log_softmax is x - LSE."""
    with localcontext() as context:
        context.prec = 60
        e = Decimal(1).exp()
        lse = 1000 + (1 + e + 1 / e).ln()
        logarithms = [Decimal(x) - lse for x in (1000, 1001, 999)]
    assert _encloses(route.logsumexp(SEED), (0,), lse)
    truth = route.log_softmax(SEED)
    assert all(_encloses(truth, (0, i), value) for i, value in enumerate(logarithms))


FUNCTIONS = ["softmax", "log_softmax", "logsumexp"]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_softmax_routes_agree_on_hard_rows(function: str) -> None:
    """Wide exponents, ties, huge and subnormal entries: the two routes overlap, narrowly."""
    rng = np.random.default_rng(3)
    rows = [
        rng.standard_normal(6),
        rng.standard_normal(6) * 2.0 ** rng.integers(-140, 120, 6),
        np.array([3e38, 3e38, -3e38, 0.0, 1e-45, 3e38]),
        np.array([0.0, -80.0, -700.0, -745.2, -1e4, -3e38]),
        np.full(6, 1e-45),
        np.array([8e307, -8e307, 8e307, 5e-324, 0.0, -0.0]),
    ]
    x = np.array(rows)
    first, second = getattr(exact, function)(x), getattr(arb, function)(x)
    assert disagreements(first, second) == []
    size = np.abs(first.hi) if function == "softmax" else np.maximum(1.0, np.abs(first.hi))
    for truth in (first, second):
        assert (truth.radius <= 2.0**-100 * size + 2.0**-1072).all()


SPECIAL: list[tuple[str, list[float], list[float], list[int]]] = [
    ("softmax", [0.0, np.nan, 1.0], [np.nan] * 3, [NAN] * 3),
    ("softmax", [-INF, -INF], [np.nan] * 2, [NAN] * 2),
    ("softmax", [INF, 0.0, INF, -INF], [0.5, 0.0, 0.5, 0.0], [FINITE | NAN] * 4),
    ("softmax", [0.0, -INF, 0.0], [0.5, 0.0, 0.5], [FINITE] * 3),
    ("softmax", [7.0], [1.0], [FINITE]),
    ("softmax", [], [], []),
    ("softmax", [0.0, -2000.0], [1.0, 0.0], [FINITE] * 2),
    ("log_softmax", [0.0, np.nan], [np.nan] * 2, [NAN] * 2),
    ("log_softmax", [-INF], [np.nan], [NAN]),
    ("log_softmax", [3.0, -INF], [0.0, -INF], [FINITE, NEGATIVE_INFINITY]),
    ("log_softmax", [INF, 2.0], [0.0, -INF], [FINITE | NAN, NEGATIVE_INFINITY | NAN]),
    ("log_softmax", [], [], []),
    ("logsumexp", [0.0, np.nan, INF], [np.nan], [NAN]),
    ("logsumexp", [], [-INF], [NEGATIVE_INFINITY]),
    ("logsumexp", [-INF, -INF], [-INF], [NEGATIVE_INFINITY]),
    ("logsumexp", [INF, -INF, 1.0], [INF], [POSITIVE_INFINITY | NAN]),
    ("logsumexp", [-INF, 2.5], [2.5], [FINITE]),
]


@ROUTES
@pytest.mark.parametrize(
    ("function", "row", "values", "classes"), SPECIAL, ids=[f"{f}{r}" for f, r, _, _ in SPECIAL]
)
def test_softmax_special_rows_follow_the_rules(
    route: ModuleType, function: str, row: list[float], values: list[float], classes: list[int]
) -> None:
    """Each rule on NaN, infinities and empty rows in the docstring of `references`."""
    call: Callable[..., Enclosure] = getattr(route, function)
    truth = call(np.array([row], dtype=float))
    assert np.array_equal(truth.hi.ravel(), values, equal_nan=True)
    assert truth.classes.ravel().tolist() == classes
    assert truth.tier.shape == (1,)
    assert (truth.radius <= 2.0**-100).all()


@ROUTES
def test_softmax_underflow_keeps_a_radius(route: ModuleType) -> None:
    """exp(-2000) is not 0: its enclosure is 0 with a radius above 0."""
    truth = route.softmax(np.array([[0.0, -2000.0]]))
    assert truth.hi[0, 1] == 0
    assert 0 < truth.radius[0, 1] < 1e-320
