"""Exact scores are exact in binary32, and the ladder stands on both sides of each threshold."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from verify import families
from verify.case import Array, Axes, Case, Inputs, Plan
from verify.families import _exact_scores, _thresholds
from verify.families._exact_scores import exact_qk, near, rows_that_fit
from verify.families._thresholds import LN2, LN_HALF_UP, LN_U, THRESHOLDS, UNIT
from verify.formats import BFLOAT16, BINARY16, BINARY32, FORMATS, Format
from verify.integers import Draws

FORMAT_NAMES = ("fp16", "bf16", "fp32")
USERS = [
    name
    for name in families.names()
    if hasattr(importlib.import_module(f"verify.families.{name}"), "exact_qk")
]


def _cases(name: str, fmt: str) -> Iterator[Case]:
    yield from families.family(name).cases(Plan("attention", FORMATS[fmt]))


def _lowest_bit(x: Array) -> Array:
    """The weight of the last non-zero bit of each positive float64."""
    mantissa, exponent = np.frexp(x)
    integer = (mantissa * 2.0**53).astype(np.int64)
    bit: Array = np.ldexp((integer & -integer).astype(np.float64), exponent - 53)
    return bit


@pytest.mark.parametrize("fmt", FORMAT_NAMES)
@pytest.mark.parametrize("name", USERS)
def test_all_products_and_partial_sums_are_exact_in_binary32(name: str, fmt: str) -> None:
    """In units of the lowest bit of any product, sum |q k| < 2^24: no sum, in any order, rounds."""
    for case in _cases(name, fmt):
        inputs = case.build()
        q, k = inputs["q"].values[0, 0], inputs["k"].values[0, 0]
        for row in np.unique(q, axis=0):
            products = np.abs(row * k)[:, row != 0]  # exact: at most 24 + 24 bits
            total = products.sum(axis=1)  # exact: below 2^24 units
            bits = np.where(products > 0, _lowest_bit(np.maximum(products, 2.0**-900)), np.inf)
            unit = bits.min(axis=1, initial=np.inf)
            assert (total < 2.0**24 * unit).all(), case.id
            assert total.max(initial=0) < 2.0**128, case.id
            assert unit.min(initial=np.inf) >= 2.0**-126, case.id


@pytest.mark.parametrize("fmt", FORMAT_NAMES)
@pytest.mark.parametrize("name", USERS)
def test_the_scale_of_exact_scores_is_a_power_of_two(name: str, fmt: str) -> None:
    for case in _cases(name, fmt):
        scale = case.operation.scale
        number = case.notes["d"] if scale is None else scale
        mantissa, exponent = np.frexp(number)
        assert mantissa == 0.5
        assert scale is not None or exponent % 2 == 1, f"{case.id}: d is no power of 4"


def _score(q: Array, k: Array, d: int) -> Fraction:
    """q . k / sqrt(d) for a d that is a power of 4."""
    root: int = {4**i: 2**i for i in range(7)}[d]
    total = Fraction(0)
    for a, b in zip(q[q != 0], k[q != 0], strict=True):
        total += Fraction(a) * Fraction(b)
    return Fraction(total / root)


@pytest.mark.parametrize("fmt", [BINARY16, BFLOAT16, BINARY32], ids=lambda f: f.name)
@pytest.mark.parametrize("d", [16, 64, 256])
def test_scores_come_out_as_asked(fmt: Format, d: int) -> None:
    axes = Axes(7, 9, d=d)
    rows = rows_that_fit(fmt, axes)
    units = Draws(f"{fmt.name}{d}").integers(-(2**24) + 1, 2**24, (rows, axes.n_k))
    inputs = Inputs.rounded(fmt, exact_qk(fmt, axes, units, unit=-10))
    q, k = inputs["q"].values[0, 0], inputs["k"].values[0, 0]
    for i in range(axes.n_q):
        for j in range(axes.n_k):
            assert _score(q[i], k[j], d) == Fraction(int(units[i % rows, j]), 2**10)


def test_an_explicit_scale_is_taken_out_of_the_scores() -> None:
    axes = Axes(1, 3, d=80)
    units = np.array([[5, -7, 0]])
    found = exact_qk(BINARY16, axes, units, unit=0, scale=2.0**-3)
    products = (found["q"][0, 0, 0] * found["k"][0, 0]).sum(axis=-1)
    assert products.tolist() == [40.0, -56.0, 0.0]


@pytest.mark.parametrize(
    ("axes", "units", "unit", "scale", "error"),
    [
        (Axes(1, 1), 2**24, 0, None, OverflowError),
        (Axes(1, 1), 255, 40, None, OverflowError),
        (Axes(1, 1, d=80), 1, 0, None, ValueError),
        (Axes(1, 1), 1, 0, 0.3, ValueError),
    ],
)
def test_what_cannot_be_exact_is_refused(
    axes: Axes, units: int, unit: int, scale: float | None, error: type[Exception]
) -> None:
    with pytest.raises(error):
        exact_qk(BINARY16, axes, np.array([[units]]), unit, scale)


def test_rows_near_a_level_reach_it_once_at_least_and_never_pass_it() -> None:
    units = near(Draws("near"), 20, 30, -1000, 50)
    assert (units.max(axis=1) == -1000).all()
    assert units.min() >= -1050


def _real(name: str, kind: str) -> mpmath.mpf:
    """The number whose logarithm a threshold is."""
    fmt = FORMATS[name]
    two = mpmath.mpf(2)
    return {
        "overflow": mpmath.mpf(fmt.largest) + two ** (fmt.emax - fmt.p),
        "subnormal": two**fmt.emin,
        "zero": two ** (fmt.emin - fmt.p),
    }[kind]


@pytest.mark.parametrize("name", THRESHOLDS)
def test_thresholds_are_floors_of_logarithms(name: str) -> None:
    fmt, two = FORMATS[name], mpmath.mpf(2)
    with mpmath.workprec(200):
        expected = {
            kind: int(mpmath.floor(mpmath.log(_real(name, kind)) * two**UNIT))
            for kind in vars(THRESHOLDS[name])
        }
        if fmt.specials == "fn":  # no infinity: past Omega + ulp/2 = 464
            expected["overflow"] = int(mpmath.floor(mpmath.log(464) * two**UNIT))
        u = two**-fmt.p
        assert vars(THRESHOLDS[name]) == expected
        assert LN_U[name] == int(mpmath.floor(mpmath.log(u) * two**UNIT))
        half = mpmath.log((1 + u * 97 / 100) / 2)
        assert LN_HALF_UP[name] == int(mpmath.floor(half * two**UNIT))
        assert int(mpmath.floor(mpmath.log(2) * two**UNIT)) == LN2


@pytest.mark.parametrize("fmt", [BINARY16, BFLOAT16, BINARY32], ids=lambda f: f.name)
def test_neighbouring_values_enclose_a_threshold(fmt: Format) -> None:
    for threshold in (97551793219815, -18290961234860, 1 << 50):
        units, exponent = _thresholds.value_below(threshold, fmt)
        below = Fraction(units) * Fraction(2) ** exponent
        above = Fraction(units + 1) * Fraction(2) ** exponent
        assert below <= Fraction(threshold, 2**UNIT) < above
        values = np.array([float(below), float(above)])
        assert np.array_equal(fmt.round(values), values)
        assert above - below <= Fraction(float(fmt.ulp(np.array(float(below)))))


def _ladder_scores(case: Case) -> list[list[Fraction]]:
    """Exact score rows of a ladder case, attention or not."""
    inputs = case.build()
    if case.operation.name != "attention":
        return [[Fraction(x) for x in row] for row in inputs["x"].values]
    q, k = inputs["q"].values[0, 0], inputs["k"].values[0, 0]
    return [[_score(row, key, 64) for key in k] for row in q]


@pytest.mark.parametrize("operation", ["attention", "softmax"])
@pytest.mark.parametrize("fmt", FORMAT_NAMES)
def test_the_ladder_stands_on_both_sides_of_each_threshold(operation: str, fmt: str) -> None:
    plan = Plan(operation, FORMATS[fmt])  # type: ignore[arg-type]
    seen: dict[tuple[str, str], set[str]] = {}
    with mpmath.workprec(200):
        for case in families.family("score_ladder").cases(plan):
            parts = case.name.split("-")
            if parts[0] not in FORMATS:
                continue
            owner, kind, side, where = parts[:4]
            edge = mpmath.log(_real(owner, kind))
            for row in _ladder_scores(case):
                level = max(row) if where == "top" else None
                others = [level] if level is not None else [s for s in row if s != 0]
                for s in others:
                    assert s is not None
                    real = mpmath.mpf(s.numerator) / s.denominator
                    assert (real > edge) == (side == "above"), case.id
                    assert where == "tail" or abs(real - edge) < 0.51
                if where == "top":
                    assert max(row) == Fraction(case.notes["level"])
            seen.setdefault((owner, kind), set()).add(side)
    assert all(sides == {"below", "above"} for sides in seen.values())
    kinds = {kind for _, kind in seen}
    assert kinds == {"overflow", "subnormal", "zero"}
    assert ("fp32", "overflow") in seen
    if fmt == "fp16":
        assert ("fp16", "zero") in seen


@pytest.mark.parametrize("operation", ["attention", "softmax"])
@pytest.mark.parametrize("fmt", FORMAT_NAMES)
def test_the_ladder_reaches_as_far_as_the_format(operation: str, fmt: str) -> None:
    plan = Plan(operation, FORMATS[fmt])  # type: ignore[arg-type]
    levels = sorted(c.notes["level"] for c in families.family("score_ladder").cases(plan))
    far = 65504 if fmt == "fp16" else 2.9e38
    assert levels[0] <= -far * 0.6
    assert levels[-1] >= far
    assert min(levels) < -1e4 < 0 < 999 < max(levels)
    for decade in (1e3, 1e4):
        assert any(0.99 * decade <= level <= decade for level in levels)


def test_the_highest_rung_has_few_rows() -> None:
    for fmt in FORMAT_NAMES:
        for case in families.family("score_ladder").cases(Plan("attention", FORMATS[fmt])):
            assert case.notes["n_q"] <= 4 or abs(case.notes["level"]) <= 1e5


def test_the_modules_behind_the_families_are_no_families() -> None:
    assert not any(name.startswith("_") for name in families.names())
    assert _exact_scores.LIMIT == 2**24
