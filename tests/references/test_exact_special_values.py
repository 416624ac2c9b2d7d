"""One test for each rule on special values in the docstring of `references`, for both routes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from references import arb, exact
from references.enclosure import (
    FINITE,
    NAN,
    NEGATIVE_INFINITY,
    POSITIVE_INFINITY,
    Array,
    AttentionTruth,
    Enclosure,
)

INF = np.inf
pytestmark = pytest.mark.parametrize("route", [exact, arb], ids=["exact", "arb"])


def _call(route: Any, q: list[float], k: list[float], v: Array, **options: Any) -> AttentionTruth:
    """One head, d = 1: q and k are lists of scalars, v is (n_k, d_v); scale 1."""
    column = np.array(q, dtype=float).reshape(1, 1, -1, 1)
    keys = np.array(k, dtype=float).reshape(1, 1, -1, 1)
    values = np.asarray(v, dtype=float)[None, None]
    truth: AttentionTruth = route.attention(column, keys, values, scale=1.0, **options)
    return truth


def _is(enclosure: Enclosure, value: float, classes: int) -> bool:
    """All elements are this value, up to their radius, with these classes."""
    same = np.isclose(enclosure.hi, value, rtol=2.0**-52, atol=0, equal_nan=True)
    return bool(same.all() and (enclosure.classes == classes).all())


V = np.array([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]])
POISON = np.array([[1.0, 10.0], [np.nan, INF], [4.0, 40.0]])


@pytest.mark.parametrize(
    "removal",
    [
        {"mask": np.array([True, False, True])},
        {"bias": np.array([0.0, -INF, 0.0])},
    ],
    ids=["mask", "bias"],
)
def test_a_removed_key_contributes_nothing_whatever_it_holds(route: Any, removal: Any) -> None:
    """NaN in its k and v, +inf in its score: the row is that of the other keys, class FINITE."""
    truth = _call(route, [0.0], [1.0, np.nan, 1.0], POISON, **removal)
    assert truth.output.hi.ravel().tolist() == [2.5, 25.0]
    assert (truth.output.classes == FINITE).all()
    assert _is(truth.lse, np.log(2), FINITE)


def test_causal_and_window_remove_keys_that_hold_nan(route: Any) -> None:
    """The last key is NaN; only the last query sees it (bottom-right), or none with a window."""
    values = np.array([[1.0], [2.0], [np.nan]])
    causal = _call(route, [0.0, 0.0, 0.0], [0.0, 0.0, np.nan], values, causal=True)
    assert causal.output.hi.ravel()[:2].tolist() == [1.0, 1.5]
    assert _is(causal.output[0, 0, 2], np.nan, NAN)
    window = _call(route, [0.0, 0.0], [0.0, 0.0, np.nan], values, window=(-1, -1), causal=True)
    assert window.output.hi.ravel()[0] == 1.5


def test_a_row_without_keys_is_zero(route: Any) -> None:
    """O = 0, LSE = -inf, magnitude 0, for masked rows, causal rows before any key, n_k = 0."""
    masked = _call(route, [np.nan], [1.0, 2.0, 3.0], V, mask=np.zeros(3, dtype=bool))
    causal = _call(route, [1.0, 1.0], [1.0], V[:1], causal=True)
    none = _call(route, [1.0], [], np.zeros((0, 2)))
    for output, lse, magnitude in (
        (masked.output, masked.lse, masked.magnitude),
        (causal.output[0, 0, 0], causal.lse[0, 0, 0:1], causal.magnitude[0, 0, 0]),
        (none.output, none.lse, none.magnitude),
    ):
        assert _is(output, 0.0, FINITE)
        assert (output.radius == 0).all()
        assert _is(lse, -INF, NEGATIVE_INFINITY)
        assert (magnitude == 0).all()


def test_a_row_without_keys_but_with_a_sink_is_not_empty(route: Any) -> None:
    """O = 0, LSE = sink, exactly."""
    truth = _call(route, [1.0], [1.0], V[:1], mask=np.zeros(1, dtype=bool), sinks=np.array([-3.5]))
    assert _is(truth.output, 0.0, FINITE)
    assert _is(truth.lse, -3.5, FINITE)
    assert (truth.output.radius == 0).all()


@pytest.mark.parametrize(
    ("q", "k", "options"),
    [
        (np.nan, 1.0, {}),
        (1.0, np.nan, {}),
        (0.0, INF, {}),
        (INF, 0.0, {}),
        (1.0, 1.0, {"bias": np.array([0.0, np.nan, 0.0])}),
        (1.0, -INF, {"bias": np.array([0.0, INF, 0.0])}),
        (1.0, 1.0, {"sinks": np.array([np.nan])}),
    ],
    ids=["q", "k", "0inf", "inf0", "bias", "inf-inf", "sink"],
)
def test_a_nan_score_makes_the_row_nan(route: Any, q: float, k: float, options: Any) -> None:
    """NaN in q, a visible k, bias or sink, 0 inf and inf - inf."""
    truth = _call(route, [q], [1.0, k, 1.0], V, **options)
    assert _is(truth.output, np.nan, NAN)
    assert _is(truth.lse, np.nan, NAN)
    assert np.isnan(truth.magnitude).all()


def test_a_bias_of_minus_infinity_removes_a_score_of_plus_infinity(route: Any) -> None:
    """It does not make a NaN: the key is not there."""
    truth = _call(route, [1.0], [1.0, INF, 1.0], V, bias=np.array([0.0, -INF, 0.0]))
    assert _is(truth.lse, 1 + np.log(2), FINITE)
    assert (truth.output.classes == FINITE).all()


def test_infinities_of_both_signs_in_one_dot_product_make_the_row_nan(route: Any) -> None:
    """inf 1 + inf (-1) has no value; the other row, without infinities, is untouched."""
    q = np.array([[INF, INF], [1.0, 1.0]]).reshape(1, 1, 2, 2)
    k = np.array([[1.0, -1.0]]).reshape(1, 1, 1, 2)
    truth = route.attention(q, k, np.ones((1, 1, 1, 1)))
    assert truth.output.classes.ravel().tolist() == [NAN, FINITE]


@pytest.mark.parametrize("way", ["dot", "negative", "bias"])
def test_a_score_of_plus_infinity_gives_the_limit_or_nan(route: Any, way: str) -> None:
    """Uniform over the +inf keys; what the others hold may still show as NaN; LSE +inf or NaN."""
    calls: dict[str, tuple[list[float], list[float], dict[str, Any]]] = {
        "dot": ([1.0], [INF, 1.0, INF], {}),
        "negative": ([-1.0], [-INF, 1.0, -INF], {}),
        "bias": ([1.0], [1.0, 1.0, 1.0], {"bias": np.array([INF, 0.0, INF])}),
    }
    q, k, options = calls[way]
    truth = _call(route, q, k, V, **options)
    assert truth.output.hi.ravel().tolist() == [2.5, 25.0]
    assert (truth.output.classes == FINITE | NAN).all()
    assert _is(truth.lse, INF, POSITIVE_INFINITY | NAN)
    assert truth.magnitude.ravel() == pytest.approx([2.5, 25.0])


def test_a_sink_of_plus_infinity_takes_its_share(route: Any) -> None:
    """With one +inf key the limit is half its value; with none the output is 0."""
    sinks = np.array([INF])
    shared = _call(route, [1.0], [INF, 1.0, 1.0], V, sinks=sinks)
    alone = _call(route, [1.0], [1.0, 1.0, 1.0], V, sinks=sinks)
    assert shared.output.hi.ravel().tolist() == [0.5, 5.0]
    assert alone.output.hi.ravel().tolist() == [0.0, 0.0]
    for truth in (shared, alone):
        assert (truth.output.classes == FINITE | NAN).all()
        assert _is(truth.lse, INF, POSITIVE_INFINITY | NAN)


def test_a_score_of_minus_infinity_drops_the_key(route: Any) -> None:
    """p = 0; a non-finite v there adds NaN to what is accepted, in its column only."""
    values = np.array([[1.0, 10.0], [np.nan, 20.0], [4.0, 40.0]])
    truth = _call(route, [1.0], [0.0, -INF, 0.0], values)
    assert truth.output.hi.ravel().tolist() == [2.5, 25.0]
    assert truth.output.classes.ravel().tolist() == [FINITE | NAN, FINITE]
    assert _is(truth.lse, np.log(2), FINITE)


@pytest.mark.parametrize("sinks", [None, np.array([-INF])], ids=["none", "sink"])
def test_a_row_of_minus_infinities_is_zero_or_nan(route: Any, sinks: Array | None) -> None:
    """By value, not by removal: O is 0 or NaN, LSE -inf or NaN."""
    truth = _call(route, [1.0], [-INF, -INF], V[:2], sinks=sinks)
    assert _is(truth.output, 0.0, FINITE | NAN)
    assert _is(truth.lse, -INF, NEGATIVE_INFINITY | NAN)


def test_a_visible_value_that_is_not_finite_takes_its_column(route: Any) -> None:
    """NaN: NAN.  +inf, -inf: the infinity or NaN.  Both signs: NAN.  Others stay FINITE."""
    values = np.array([[np.nan, INF, -INF, INF, 1.0], [1.0, 1.0, 1.0, -INF, 2.0]])
    truth = _call(route, [1.0], [0.0, -500.0], values)
    classes = [NAN, POSITIVE_INFINITY | NAN, NEGATIVE_INFINITY | NAN, NAN, FINITE]
    assert truth.output.classes.ravel().tolist() == classes
    hi = [np.nan, INF, -INF, np.nan, 1.0]
    assert np.array_equal(truth.output.hi.ravel(), hi, equal_nan=True)
    assert np.isnan(truth.magnitude.ravel()).tolist() == [True] * 4 + [False]
    assert _is(truth.lse, 0.0, FINITE)


def test_softcap_turns_infinite_products_into_the_cap(route: Any) -> None:
    """c tanh(+-inf / c) = +-c is a finite score: no special class."""
    truth = _call(route, [1.0], [INF, -INF, 3e38], V, softcap=2.0)
    weights = np.exp([0.0, -4.0, 0.0])
    assert truth.output.hi.ravel() == pytest.approx(weights @ V / weights.sum(), rel=1e-14)
    assert (truth.output.classes == FINITE).all()


def test_one_key_returns_its_value_exactly(route: Any) -> None:
    """p = 1: the output is v with radius 0, and LSE is the score."""
    truth = _call(route, [0.1], [7.0], np.array([[1e-45, -3.0, 0.0]]))
    assert truth.output.hi.ravel().tolist() == [1e-45, -3.0, 0.0]
    assert (truth.output.radius == 0).all()
    assert _is(truth.lse, 0.1 * 7.0, FINITE)


@pytest.mark.parametrize(
    "options",
    [{"corner": "middle"}, {"scale": INF}, {"scale": np.nan}, {"softcap": 0.0}],
    ids=str,
)
def test_attention_refuses_options_without_a_meaning(route: Any, options: Any) -> None:
    """An unknown corner, a scale that is no number, a cap of 0."""
    q, k, v = np.ones((3, 1, 1, 2, 2))
    with pytest.raises(ValueError, match=next(iter(options))):
        route.attention(q, k, v, **options)


def test_attention_refuses_heads_that_do_not_group(route: Any) -> None:
    """3 heads on 2 kv_heads."""
    q, k = np.ones((1, 3, 1, 1)), np.ones((1, 2, 1, 1))
    with pytest.raises(ValueError, match="multiple"):
        route.attention(q, k, k)
