"""The parts of attention in float64 stay within their stated errors, measured against balls."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from references import arb
from references.decompose import Decomposition, decompose, decompose_softmax
from references.enclosure import FINITE, Array
from tests.references.test_arb_agreement import _cases

Pair = tuple[tuple[int, ...], list[Fraction], Fraction]
Case = tuple[Array, Array, Array, dict[str, Any]]

# Outside the range that decompose accepts.
CASES = {name: case for name, case in _cases().items() if name != "float64_extremes"}
# Without keys or queries there is nothing to compare element by element.
FULL = [name for name in CASES if not name.startswith("no_")]


def _probability_truth(case: Case) -> tuple[Array, Array, Array]:
    """p to float64 accuracy, where it is known, and where it is finite: values = identity."""
    q, k, _, options = case
    identity = np.broadcast_to(np.eye(k.shape[2]), (*k.shape[:3], k.shape[2]))
    truth = arb.attention(q, k, identity, **options).output
    return truth.hi, truth.radius, truth.classes == FINITE


@pytest.mark.parametrize("name", FULL)
def test_probabilities_are_within_p_error(name: str) -> None:
    """|p_hat - p| <= p_error p + 2^-1070, p_error below 2^-40 wherever it is finite."""
    q, k, v, options = CASES[name]
    parts = decompose(q, k, v, **options)
    p, radius, finite = _probability_truth(CASES[name])
    known = finite & np.isfinite(parts.p_error)[..., None]
    slack = 2.0**-52 * p + radius + 2.0**-1070
    error = np.where(np.isfinite(parts.p_error), parts.p_error, 0.0)[..., None]
    assert (np.abs(parts.p - p) <= error * p + slack)[known].all()
    assert (parts.p_error[np.isfinite(parts.p_error)] < 2.0**-40).all()


@pytest.mark.parametrize("name", FULL)
def test_probabilities_are_promised_wherever_scores_differ_accurately(name: str) -> None:
    """p_error is below 2^-40, and not +inf, on every case, scores of 1e76 included."""
    assert (decompose(*CASES[name][:3], **CASES[name][3]).p_error < 2.0**-40).all()


def test_probabilities_are_not_promised_where_106_bits_do_not_decide() -> None:
    """A difference of 5 below 2^127 + 2^60 is lost, and p_error says so with +inf."""
    q = np.ones((1, 1, 1, 3))
    k = np.array([[2.0**127, 2.0**60, 5.0], [2.0**127, 2.0**60, 0.0]])[None, None]
    parts = decompose(q, k, np.ones((1, 1, 2, 1)), scale=1.0)
    assert parts.p_error.item() == math.inf
    assert parts.dot_error.max() == pytest.approx(5.0)
    assert (parts.dot_error <= 2.0**-90 * parts.abs_dot).all()


def test_probability_test_can_fail() -> None:
    """A probability moved by 2^-39 of itself is outside its p_error."""
    parts = decompose(*CASES["plain"][:3])
    p, _, _ = _probability_truth(CASES["plain"])
    assert (np.abs(parts.p * (1 + 2.0**-39) - p) > parts.p_error[..., None] * p).all()


@pytest.mark.parametrize("name", FULL)
def test_outputs_and_logarithms_are_within_their_errors(name: str) -> None:
    """Output, magnitude and LSE against the truth, with the errors stated in `Decomposition`."""
    q, k, v, options = CASES[name]
    parts, truth = decompose(q, k, v, **options), arb.attention(q, k, v, **options)
    n_k, known = k.shape[2], np.isfinite(parts.p_error)
    p_error = np.where(known, parts.p_error, 0.0)
    relative = (p_error + (n_k + 4) * 2.0**-53)[..., None]
    floor = 2.0**-1070 * np.abs(v).sum() + truth.output.radius
    output = np.abs(parts.output - truth.output.hi) - 2.0**-53 * np.abs(truth.output.hi)
    assert (output <= relative * truth.magnitude * 1.001 + floor)[known].all()
    magnitude = np.abs(parts.magnitude - truth.magnitude)
    assert (magnitude <= (relative + 2.0**-30) * truth.magnitude + floor)[known].all()
    row = known & (truth.lse.classes == FINITE)
    with np.errstate(invalid="ignore"):
        lse = np.abs(parts.lse - truth.lse.hi)[row]
    size = np.abs(parts.maximum[row]) + np.abs(truth.lse.hi[row])
    assert (lse <= 2.0**-51 * size + 2 * p_error[row] + _score_error(q, k, options)[row]).all()
    assert np.array_equal(parts.empty, np.isneginf(truth.lse.hi))


def _score_error(q: Array, k: Array, options: dict[str, Any]) -> Array:
    """A generous form of the score errors of `Decomposition`, one number for the whole call."""
    largest = np.abs(q).max() * np.abs(k).max() * q.shape[3] * abs(options.get("scale") or 1.0)
    capped = min(largest, options.get("softcap", 0.0))
    return np.full(q.shape[:3], 2.0**-48 * capped + 2.0**-90 * largest)


def _pairs(case: Case) -> list[Pair]:
    """Every (place, products q_il k_jl, bias) of a call, as rational numbers."""
    q, k, _, options = case
    batch, heads, n_q, _ = q.shape
    full = (batch, heads, n_q, k.shape[2])
    bias = np.broadcast_to(options.get("bias", 0.0), full)
    group = heads // k.shape[1]
    found: list[Pair] = []
    for b, h, i, j in np.ndindex(full):
        pairs = zip(q[b, h, i].tolist(), k[b, h // group, j].tolist(), strict=True)
        products = [Fraction(x) * Fraction(y) for x, y in pairs]
        term = float(bias[b, h, i, j])
        found.append(((b, h, i, j), products, Fraction(term if math.isfinite(term) else 0)))
    return found


@pytest.mark.parametrize("name", ["plain", "gqa", "bias", "wide", "huge_scores", "subnormal"])
def test_dot_products_and_scores_are_within_their_errors(name: str) -> None:
    """dot, dot_error, abs_dot, uncapped and score against rational arithmetic."""
    case = CASES[name]
    q, k, v, options = case
    parts = decompose(q, k, v, **options)
    tau = Fraction(options["scale"]) if "scale" in options else _rational_root(q.shape[3])
    for place, products, bias in _pairs(case):
        if not parts.visible[place]:
            assert parts.score[place] == -math.inf
            continue
        y, a = sum(products, Fraction(0)), sum(map(abs, products), Fraction(0))
        lost = Fraction(float(parts.dot_error[place]))
        assert abs(_fraction(parts.dot[place]) - y) <= abs(y) / 2**53 + lost
        assert lost <= a / 2**90
        assert a <= _fraction(parts.abs_dot[place]) <= a * (1 + Fraction(q.shape[3] + 3, 2**52))
        t, s = tau * y, tau * y + bias
        assert abs(_fraction(parts.uncapped[place]) - t) <= abs(t) / 2**52 + tau * lost
        near = abs(s) / 2**52 + (abs(t) + abs(bias)) / 2**100 + tau * lost
        assert abs(_fraction(parts.score[place]) - s) <= near


def _fraction(x: Any) -> Fraction:
    return Fraction(float(x))


def _rational_root(d: int) -> Fraction:
    """1/sqrt(d) up to 2^-500."""
    return Fraction(math.isqrt((1 << 1000) // d), 1 << 500)


def test_dot_products_of_ordinary_data_lose_nothing() -> None:
    """dot_error is 0 for binary32 data of ordinary spread, above 0 where 106 bits are too few."""
    assert (decompose(*CASES["plain"][:3]).dot_error == 0).all()
    assert (decompose(*CASES["wide"][:3]).dot_error > 0).any()


@pytest.mark.parametrize("d", [1, 2, 3, 64, 80, 96, 100, 128, 192, 4096])
def test_scale_words_are_the_root_to_106_bits(d: int) -> None:
    """hi + lo = 1/sqrt(d) up to 2^-106 of it, and `scale` is above it."""
    parts = decompose(np.zeros((1, 1, 1, d)), np.zeros((1, 1, 1, d)), np.zeros((1, 1, 1, 1)))
    root = _rational_root(d)
    assert abs(sum(map(Fraction, parts.scale_words)) - root) <= root / 2**106
    assert root <= Fraction(parts.scale) <= root * (1 + Fraction(1, 2**51))


def test_softcapped_scores_are_within_their_error() -> None:
    """2^-48 min(|tau y|, softcap) more than without, from small to saturated scores."""
    q = np.array([1e-30, 1e-3, 0.3, 5.0, 40.0, 1e6, 3e38]).reshape(1, 1, 7, 1)
    one = np.ones((1, 1, 1, 1))
    parts = decompose(q, one, one, scale=1.0, softcap=30.0)
    truth = arb.attention(q, one, one, scale=1.0, softcap=30.0)  # one key: LSE is the score
    allowed = 2.0**-48 * np.minimum(q[..., 0], 30.0)
    assert (np.abs(parts.score[..., 0] - truth.lse.hi) <= allowed).all()


def test_sinks_join_maximum_and_row_sum_but_carry_no_value() -> None:
    """p and sink_p add up to 1; a row with nothing but a sink is not empty."""
    q, k, v, options = CASES["softcap_bias_sinks_mask"]
    parts = decompose(q, k, v, **options)
    assert parts.sink_p is not None
    assert parts.sink_score is not None
    assert np.allclose(parts.p.sum(axis=-1) + parts.sink_p, 1, rtol=2.0**-45)
    assert np.array_equal(parts.sink_score[0, :, 0], options["sinks"])
    alone = decompose(*CASES["no_keys_sinks"][:3], **CASES["no_keys_sinks"][3])
    assert not alone.empty.any()
    assert (alone.row_sum == 1).all()
    assert np.array_equal(alone.lse[0, :, 0], [0.25, -1.0])
    assert decompose(*CASES["plain"][:3]).sink_p is None


def test_rows_without_keys_are_empty() -> None:
    """l = 0, M = LSE = -inf, O = 0, nothing visible."""
    parts = decompose(*CASES["causal_more_queries"][:3], causal=True)
    empty = parts.empty[0, 0]
    assert empty.tolist() == [True] * 3 + [False] * 3
    assert not parts.visible[0, 0][empty].any()
    assert (parts.row_sum[0, 0][empty] == 0).all()
    assert (parts.output[0, 0][empty] == 0).all()
    assert np.isneginf(parts.maximum[0, 0][empty]).all()
    assert np.isneginf(parts.lse[0, 0][empty]).all()


def test_rows_with_nan_are_undefined_and_harmless() -> None:
    """The row of the NaN is marked and holds no NaN; the other rows are intact."""
    q, k, v, _ = CASES["plain"]
    poisoned = q.copy()
    poisoned[0, 1, 2, 3] = np.nan
    parts, plain = decompose(poisoned, k, v), decompose(q, k, v)
    assert np.argwhere(parts.undefined).tolist() == [[0, 1, 2]]
    assert not parts.empty.any()
    for field in fields(Decomposition):
        value = getattr(parts, field.name)
        if isinstance(value, np.ndarray):
            assert not np.isnan(value).any()
            intact = ~parts.undefined
            assert np.array_equal(value[intact], getattr(plain, field.name)[intact])


@pytest.mark.parametrize("where", ["key", "bias"])
def test_rows_with_plus_infinity_are_uniform_over_it(where: str) -> None:
    """Scores count as 0 on the +inf keys, the others as removed."""
    k = np.array([np.inf if where == "key" else 1.0, 2.0, 3.0]).reshape(1, 1, 3, 1)
    bias = np.array([np.inf if where == "bias" else 0.0, 0.0, 0.0])
    v = np.array([4.0, 5.0, 6.0]).reshape(1, 1, 3, 1)
    parts = decompose(np.ones((1, 1, 1, 1)), k, v, bias=bias)
    assert parts.p.ravel().tolist() == [1.0, 0.0, 0.0]
    assert parts.score.ravel().tolist() == [0.0, -np.inf, -np.inf]
    assert parts.output.ravel().tolist() == [4.0]
    assert parts.lse.ravel().tolist() == [0.0]


def test_infinite_products_under_a_softcap_are_the_cap() -> None:
    """The score is +-c, visible; dot and abs_dot are 0 there; nothing is NaN."""
    k = np.array([np.inf, -np.inf, 1.0]).reshape(1, 1, 3, 1)
    parts = decompose(np.ones((1, 1, 1, 1)), k, np.ones((1, 1, 3, 1)), scale=1.0, softcap=2.0)
    assert parts.visible.all()
    assert parts.score.ravel()[:2].tolist() == [2.0, -2.0]
    assert parts.dot.ravel().tolist() == [0.0, 0.0, 1.0]


def test_minus_infinite_scores_are_not_visible() -> None:
    """A score of -inf by value has p = 0 like a removed key."""
    k = np.array([-np.inf, 1.0]).reshape(1, 1, 2, 1)
    parts = decompose(np.ones((1, 1, 1, 1)), k, np.array([np.nan, 3.0]).reshape(1, 1, 2, 1))
    assert parts.visible.ravel().tolist() == [False, True]
    assert parts.output.ravel().tolist() == [3.0]


def test_queries_are_rows_of_the_whole() -> None:
    """queries=(start, stop) returns those rows of the full record, masks and causality included."""
    q, k, v, options = CASES["softcap_bias_sinks_mask"]
    whole = decompose(q, k, v, causal=True, **options)
    part = decompose(q, k, v, causal=True, **options, queries=(1, 3))
    for field in fields(Decomposition):
        value = getattr(whole, field.name)
        if isinstance(value, np.ndarray):
            assert np.allclose(getattr(part, field.name), value[:, :, 1:3], rtol=2.0**-45)


def test_softmax_rows_decompose_within_their_errors() -> None:
    """p, LSE and the special rows of decompose_softmax, scores being exact."""
    x = np.array([[1000.0, 1001.0, 999.0], [3e38, -3e38, 3e38], [0.0, -700.0, -1e4]])
    parts, truth, lse = decompose_softmax(x), arb.softmax(x), arb.logsumexp(x)
    error = parts.p_error[0, 0, :, None] * truth.hi + 2.0**-52 * truth.hi + 2.0**-1070
    assert (np.abs(parts.p[0, 0] - truth.hi) <= error).all()
    assert np.allclose(parts.lse[0, 0], lse.hi, rtol=2.0**-50)
    assert np.array_equal(parts.score[0, 0], x)
    assert (parts.abs_dot == 0).all()
    inf = np.inf
    special = decompose_softmax(np.array([[inf, 1.0], [-inf, -inf], [np.nan, 0.0], [-inf, 5.0]]))
    assert special.p[0, 0].tolist() == [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
    assert special.undefined[0, 0].tolist() == [False, False, True, False]
    assert special.empty[0, 0].tolist() == [False, True, False, False]


def test_decompose_refuses_scores_beyond_its_range() -> None:
    """Products that float64 slices cannot carry are refused, not garbled."""
    x = np.full((1, 1, 1, 1), 1e200)
    with pytest.raises(ValueError, match="2\\^900"):
        decompose(x, x, x)


def test_decompose_is_quick_enough() -> None:
    """64 queries on 4096 keys, d = 128: at most 100 times the CPU time of plain float64 attention
    on one thread, the best of three each (20 to 40 times where it was written)."""
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((1, 1, 64, 128)), rng.standard_normal((1, 1, 4096, 128))

    def plain() -> object:
        return np.exp(q @ k.swapaxes(2, 3) * 128**-0.5) @ k

    def seconds(work: Callable[[], object]) -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    with threadpool_limits(limits=1, user_api="blas"):
        pairs = [(seconds(lambda: decompose(q, k, k)), seconds(plain)) for _ in range(3)]
    ours, theirs = (min(column) for column in zip(*pairs, strict=True))
    assert ours < 100 * theirs
