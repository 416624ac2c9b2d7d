"""The parts of the gradients in float64 stay within their stated errors."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from references import exact
from references.decompose_gradients import GradientDecomposition, Sum, decompose_gradients
from references.enclosure import FINITE, Array, Enclosure
from tests.references.test_decompose import CASES, FULL

Case = tuple[Array, Array, Array, dict[str, Any]]


def _upstream(q: Array, v: Array, seed: int = 11) -> tuple[Array, Array]:
    """dO of every size, and dLSE."""
    rng = np.random.default_rng(seed)
    do = rng.standard_normal((*q.shape[:3], v.shape[3])) * 2.0 ** rng.integers(-20, 20)
    dlse = rng.standard_normal(q.shape[:3])
    return do.astype(np.float32).astype(np.float64), dlse.astype(np.float32).astype(np.float64)


def _full_bias(case: Case) -> dict[str, Any]:
    """The options with a bias of full shape, so that dbias is dS."""
    q, k, _, options = case
    shape = (*q.shape[:3], k.shape[2])
    bias = np.broadcast_to(options.get("bias", np.zeros(1)), shape).copy()
    return {**options, "bias": bias}


def _misses(value: Array, error: Array, truth: Enclosure, factor: float = 1.0) -> int:
    """Elements that are farther from the truth than their error, where both are known."""
    found = 0
    for place in np.ndindex(value.shape):
        if truth.classes[place] == FINITE and np.isfinite(error[place]):
            exact_value = Fraction(float(truth.hi[place])) + Fraction(float(truth.lo[place]))
            distance = abs(Fraction(float(value[place])) - exact_value)
            allowed = Fraction(float(error[place])) * Fraction(factor)
            found += distance > allowed + Fraction(float(truth.radius[place]))
    return found


@pytest.mark.parametrize("name", FULL)
def test_gradients_and_ds_are_within_their_errors(name: str) -> None:
    """dS (as dbias of a full bias), dQ, dK, dV, dsinks against the truth; errors are small."""
    q, k, v, _ = CASES[name]
    do, dlse = _upstream(q, v)
    options = _full_bias(CASES[name])
    parts = decompose_gradients(q, k, v, do, dlse=dlse, **options)
    truth = exact.attention_gradients(q, k, v, do, dlse=dlse, **options)
    assert truth.dbias is not None
    assert parts.dbias is not None
    assert _misses(parts.ds, parts.ds_error, truth.dbias) == 0
    for gradient, enclosure in truth.parts().items():
        part = getattr(parts, gradient)
        assert _misses(part.value, part.error, enclosure) == 0
        assert _absolute_is_above(part, enclosure)
        small = part.error <= 2.0**-38 * truth.magnitude[gradient] + 2.0**-700
        assert small[np.isfinite(truth.magnitude[gradient])].all()


def _absolute_is_above(part: Sum, truth: Enclosure) -> bool:
    size = np.abs(truth.hi) * (1 - 2.0**-50) - truth.radius
    return bool((part.absolute >= size)[truth.classes == FINITE].all())


@pytest.mark.parametrize("name", FULL)
def test_pairs_and_means_are_within_their_errors(name: str) -> None:
    """dP and sum |dO||v| in rational arithmetic, D as sum dO . O from the enclosed output."""
    q, k, v, options = CASES[name]
    do, dlse = _upstream(q, v)
    parts = decompose_gradients(q, k, v, do, dlse=dlse, **options)
    output = exact.attention(q, k, v, **options).output
    group = q.shape[1] // k.shape[1]
    for b, h, i in np.ndindex(q.shape[:3]):
        row = list(map(Fraction, do[b, h, i].tolist()))
        for j in range(k.shape[2]):
            values = map(Fraction, v[b, h // group, j].tolist())
            terms = [g * x for g, x in zip(row, values, strict=True)]
            place, total = (b, h, i, j), sum(terms, Fraction(0))
            error = Fraction(float(parts.dp_error[place])) + abs(total) * Fraction(1, 2**53)
            assert abs(Fraction(float(parts.dp[place])) - total) <= error
            absolute = sum(map(abs, terms), Fraction(0))
            slack = 1 + Fraction(v.shape[3] + 3, 2**52)
            assert absolute <= Fraction(float(parts.abs_dp[place])) <= absolute * slack
        words = zip(output.hi[b, h, i].tolist(), output.lo[b, h, i].tolist(), strict=True)
        mean = sum(
            g * (Fraction(hi) + Fraction(lo)) for g, (hi, lo) in zip(row, words, strict=True)
        )
        radii = map(Fraction, output.radius[b, h, i].tolist())
        unknown = sum(abs(g) * x for g, x in zip(row, radii, strict=True))
        error = Fraction(float(parts.mean_error[b, h, i])) + unknown
        assert abs(Fraction(float(parts.mean[b, h, i])) - mean) <= error


def _plain(**options: Any) -> tuple[GradientDecomposition, Any]:
    q, k, v, _ = CASES["plain"]
    do, _ = _upstream(q, v)
    return decompose_gradients(q, k, v, do, **options), do


def test_gradient_parts_test_can_fail() -> None:
    """Errors divided by a thousand do not hold."""
    parts, do = _plain()
    truth = exact.attention_gradients(*CASES["plain"][:3], do)
    for name in ("dq", "dk", "dv"):
        part = getattr(parts, name)
        assert _misses(part.value, part.error, getattr(truth, name), 1e-3) > 0


def test_blocks_of_queries_add_up_to_the_whole() -> None:
    """dq is that of the block, dk, dv and a broadcast dbias are partial sums."""
    bias = np.linspace(-1, 1, 5).reshape(1, 1, 1, 5)
    whole, do = _plain(bias=bias)
    q, k, v, _ = CASES["plain"]
    halves = [
        decompose_gradients(q, k, v, do, bias=bias, queries=rows) for rows in ((0, 1), (1, 4))
    ]
    assert np.allclose(np.concatenate([x.dq.value for x in halves], axis=2), whole.dq.value, 1e-10)
    for name in ("dk", "dv", "dbias"):
        total, first, second = (getattr(x, name) for x in (whole, *halves))
        error = first.error + second.error + total.error
        assert (np.abs(first.value + second.value - total.value) <= error).all()


def test_slopes_are_those_of_the_softcap() -> None:
    """1 - tanh^2 within its error, tiny ones with their size."""
    q, k, v, _ = CASES["softcap"]
    do, _ = _upstream(q, v)
    parts = decompose_gradients(q, k, v, do, softcap=4.0)
    assert parts.slope is not None
    assert parts.slope_error is not None
    z = parts.forward.uncapped.astype(np.longdouble) / 4.0
    assert (np.abs(parts.slope - 1 / np.cosh(z) ** 2) <= parts.slope_error).all()
    assert parts.slope.min() < 2.0**-20


def test_rows_without_promise_have_infinite_errors() -> None:
    """A difference that 106 bits do not hold: dS and the sums that it enters are unknown."""
    q = np.ones((1, 1, 2, 3))
    q[0, 0, 1] = 0.0
    k = np.array([[2.0**127, 2.0**60, 5.0], [2.0**127, 2.0**60, 0.0]])[None, None]
    v = np.array([[1.0], [2.0]])[None, None]
    parts = decompose_gradients(q, k, v, np.ones((1, 1, 2, 1)), scale=1.0)
    assert np.isinf(parts.ds_error[0, 0, 0]).all()
    assert np.isfinite(parts.ds_error[0, 0, 1]).all()
    assert np.isinf(parts.dq.error[0, 0, 0]).all()
    assert np.isinf(parts.dv.error).all()


def test_given_forward_parts_are_used() -> None:
    """The same record with and without."""
    first, do = _plain()
    second, _ = _plain(forward=replace(first.forward))
    assert np.array_equal(first.dk.value, second.dk.value)
    assert do.shape == first.forward.output.shape
