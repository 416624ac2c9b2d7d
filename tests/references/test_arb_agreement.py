"""The two routes to the truth of attention, which share no code, on random and hard cases."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from references import arb, exact
from references.enclosure import FINITE, Array, AttentionTruth
from tests.references.test_exact_overlap import truth_disagreements

Tensors = tuple[Array, Array, Array]
Case = tuple[Array, Array, Array, dict[str, Any]]


def _float32(x: Array) -> Array:
    with np.errstate(over="ignore", under="ignore"):
        return np.clip(x, -3e38, 3e38).astype(np.float32).astype(np.float64)


def _normal(seed: int, *shape: int) -> Array:
    return _float32(np.random.default_rng(seed).standard_normal(shape))


def _wide(seed: int, *shape: int) -> Array:
    """Exponents spread over the whole of binary32, subnormal numbers included."""
    rng = np.random.default_rng(seed)
    return _float32(rng.standard_normal(shape) * 2.0 ** rng.integers(-148, 126, shape))


def _tensors(n_q: int = 4, n_k: int = 5, d: int = 8, d_v: int = 3, heads: int = 2) -> Tensors:
    return _normal(1, 2, heads, n_q, d), _normal(2, 2, 1, n_k, d), _normal(3, 2, 1, n_k, d_v)


def _cases() -> dict[str, Case]:
    """Named calls: what is plain first, then one difficulty each."""
    q, k, v = _tensors()
    rng = np.random.default_rng(5)
    mask = rng.random((2, 2, 4, 5)) < 0.5
    bias = _normal(6, 1, 2, 4, 5) * 3
    bias[0, 0, 1] = [-np.inf, 2, -np.inf, -1e30, 0]
    one = _tensors(n_q=3, n_k=1)
    huge = _float32(np.sign(q) * 3e38), _float32(np.sign(k) * 3e38), v
    nearly = k.copy()
    nearly[:, :, 1:] = nearly[:, :, :1]
    nearly[:, :, 1, 0] = np.nextafter(nearly[:, :, 0, 0].astype(np.float32), np.float32(9))
    against = np.array([0.0, -60.0, -90.0, -500.0, -700.0]).reshape(1, 1, 1, 5)
    tall = np.array([0.0, 2.0**100, 2.0**120, -(2.0**127), 2.0**127]).reshape(1, 1, 5, 1)
    return {
        "plain": (q, k, v, {}),
        "plain_large_scores": (q * 300, k, v, {}),
        "gqa": (_normal(8, 1, 6, 3, 4), _normal(9, 1, 2, 4, 4), _normal(10, 1, 2, 4, 2), {}),
        "odd_d": (_normal(8, 1, 1, 3, 7), _normal(9, 1, 1, 4, 7), _normal(10, 1, 1, 4, 2), {}),
        "scale_float": (q, k, v, {"scale": float(np.float32(0.1))}),
        "scale_negative": (q, k, v, {"scale": -3.0}),
        "scale_zero": (q, k, v, {"scale": 0.0}),
        "causal": (q, k, v, {"causal": True}),
        "causal_top_left": (q, k, v, {"causal": True, "corner": "top-left"}),
        "causal_more_queries": (*_tensors(n_q=6, n_k=3), {"causal": True}),
        "causal_top_left_more_queries": (
            *_tensors(n_q=6, n_k=3),
            {"causal": True, "corner": "top-left"},
        ),
        "window": (q, k, v, {"window": (1, 0)}),
        "window_open": (q, k, v, {"window": (-1, 1), "corner": "top-left"}),
        "window_causal": (*_tensors(n_q=7, n_k=4), {"window": (2, -1), "causal": True}),
        "window_self": (q, k, v, {"window": (0, 0)}),
        "mask": (q, k, v, {"mask": mask}),
        "mask_broadcast": (q, k, v, {"mask": mask[:1, :1, :1]}),
        "bias": (q, k, v, {"bias": bias}),
        "softcap": (q * 40, k, v, {"softcap": 30.0}),
        "softcap_tiny_scores": (q * 1e-20, k, v, {"softcap": 50.0}),
        "softcap_saturated": (*huge, {"softcap": 20.0}),
        "softcap_bias_sinks_mask": (
            q,
            k,
            v,
            {"softcap": 2.0, "bias": bias, "sinks": np.array([1.0, -2.0]), "mask": mask},
        ),
        "sinks": (q, k, v, {"sinks": np.array([0.5, 300.0])}),
        "sinks_far_below": (q, k, v, {"sinks": np.array([-1e4, -3e38])}),
        "huge_scores": (*huge, {}),
        "huge_scores_bias": (*huge, {"bias": bias, "sinks": np.array([3e38, 0.0])}),
        "wide": (_wide(1, 1, 1, 3, 6), _wide(2, 1, 1, 4, 6), _wide(3, 1, 1, 4, 3), {}),
        "subnormal": (q * 2.0**-140, k, v * 2.0**-145, {"scale": 1.0}),
        "ties": (q, np.repeat(k[:, :, :1], 5, axis=2), v, {}),
        "near_ties": (q * 100, nearly, v, {}),
        "zeros": (q * 0, k, v * 0, {}),
        "values_against_weights": (q[:1] * 0, k[:1], tall, {"bias": against}),
        "values_cancel": (q * 0, np.repeat(k, 2, 2)[:, :, :4], _cancelling(), {}),
        "no_keys": (*_tensors(n_k=0), {}),
        "no_keys_sinks": (*_tensors(n_k=0), {"sinks": np.array([0.25, -1.0])}),
        "no_queries": (*_tensors(n_q=0), {}),
        "one_key": (*one, {}),
        "one_key_sinks": (*one, {"sinks": np.array([0.0, 1.0])}),
        "float64_extremes": (q * 1e150, k * 1e-150, v * 1e300, {}),
    }


def _cancelling() -> Array:
    """Columns of +-values whose mean is far below their size."""
    column = np.array([1e30, -1e30, 1.0, 2.0]).reshape(1, 1, 4, 1)
    return np.repeat(np.repeat(column, 2, axis=0), 2, axis=3)


@pytest.mark.parametrize("name", _cases())
def test_attention_routes_agree(name: str) -> None:
    """Classes are equal, enclosures overlap exactly, and magnitudes agree."""
    q, k, v, options = _cases()[name]
    first, second = exact.attention(q, k, v, **options), arb.attention(q, k, v, **options)
    assert truth_disagreements(first, second) == []
    assert _narrow(first)
    assert _narrow(second)


def _narrow(truth: AttentionTruth) -> bool:
    """The radius is what the docstrings promise: 2^-100 of the magnitude."""
    output, lse = truth.output, truth.lse
    allowed = 2.0**-100 * truth.magnitude + 2.0**-1072
    finite = lse.classes == FINITE
    size = np.maximum(1.0, np.abs(lse.hi))
    return bool((output.radius <= allowed).all() and (lse.radius <= 2.0**-100 * size)[finite].all())


@pytest.mark.parametrize("seed", range(40))
def test_attention_routes_agree_on_random_specials(seed: int) -> None:
    """Random shapes and options, NaN, infinities and zeros strewn in: classes and values agree."""
    rng = np.random.default_rng(seed)
    heads, n_q, n_k = 2 * int(rng.integers(1, 3)), int(rng.integers(1, 6)), int(rng.integers(0, 7))
    d, d_v, share = int(rng.integers(1, 7)), int(rng.integers(1, 4)), rng.choice([0.02, 0.1])
    q, k, v, bias, sinks = (
        _strewn(rng, _normal(seed, *shape), share)
        for shape in (
            (1, heads, n_q, d),
            (1, 2, n_k, d),
            (1, 2, n_k, d_v),
            (1, 1, n_q, n_k),
            (heads,),
        )
    )
    choose = random.Random(seed).choice
    options: dict[str, Any] = {
        "scale": choose([None, 0.5, -1.0, 0.0]),
        "softcap": choose([None, 5.0]),
        "bias": choose([None, bias]),
        "sinks": choose([None, sinks]),
        "causal": choose([False, True]),
        "corner": choose(["bottom-right", "top-left"]),
        "window": choose([None, (-1, 1), (0, 0), (2, -1)]),
    }
    first, second = exact.attention(q, k, v, **options), arb.attention(q, k, v, **options)
    assert truth_disagreements(first, second) == []


def _strewn(rng: np.random.Generator, x: Array, share: float) -> Array:
    chosen = rng.random(x.shape) < share
    x[chosen] = rng.choice([np.nan, np.inf, -np.inf, 0.0], int(chosen.sum()))
    return x


@pytest.mark.parametrize("route", [exact, arb], ids=["exact", "arb"])
def test_attention_rows_are_those_of_the_whole(route: Any) -> None:
    """With `rows`, these have the bits of the full call; of the others nothing is known."""
    q, k, v = _tensors()
    whole = route.attention(q, k, v, causal=True)
    rows = [(0, 1, 3), (1, 0, 2), (1, 0, 0)]
    part = route.attention(q, k, v, causal=True, rows=iter(rows))
    for row in np.ndindex(q.shape[:3]):
        assert np.isinf(part.output.radius[row]).all() == (row not in rows)
        assert np.isinf(part.lse.radius[row]) == (row not in rows)
        if row in rows:
            assert np.array_equal(part.output.hi[row], whole.output.hi[row])
            assert np.array_equal(part.output.lo[row], whole.output.lo[row])
            assert np.allclose(part.magnitude[row], whole.magnitude[row], rtol=2.0**-45, atol=0)
