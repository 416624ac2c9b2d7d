"""The two routes to the truth of gradients, which share no code, on random and hard cases."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from references import arb, exact
from references.enclosure import FINITE, Array, AttentionGradients
from tests.references.gradient_cases import OPTIONS, central_differences, make, outside
from tests.references.test_arb_agreement import _cases, _normal, _strewn, _wide
from tests.references.test_exact_overlap import disagreements


def gradient_disagreements(first: AttentionGradients, second: AttentionGradients) -> list[str]:
    """Elements whose classes, enclosures or magnitudes contradict each other."""
    found = []
    assert first.parts().keys() == second.parts().keys()
    for name, part in first.parts().items():
        found += [f"{name}{text}" for text in disagreements(part, second.parts()[name])]
        size, other = first.magnitude[name], second.magnitude[name]
        if not np.allclose(size, other, 2.0**-20, 1e-300, equal_nan=True):
            found.append(f"{name}: magnitudes differ")
    return found


def _narrow(gradients: AttentionGradients) -> bool:
    return all(
        bool((part.radius <= 2.0**-99 * gradients.magnitude[name] + 2.0**-1072)[finite].all())
        for name, part in gradients.parts().items()
        for finite in [part.classes == FINITE]
    )


def _upstream(name: str, q: Array, v: Array) -> tuple[Array, Array]:
    shape = (*q.shape[:3], v.shape[3])
    do = _wide(20, *shape) if name.startswith(("wide", "plain_large")) else _normal(20, *shape)
    return do, _normal(21, *q.shape[:3])


@pytest.mark.parametrize("name", _cases())
def test_gradient_routes_agree(name: str) -> None:
    """Classes are equal, enclosures overlap exactly, magnitudes agree, radii are narrow."""
    q, k, v, options = _cases()[name]
    do, dlse = _upstream(name, q, v)
    first, second = (
        route.attention_gradients(q, k, v, do, dlse=dlse, **options) for route in (exact, arb)
    )
    assert gradient_disagreements(first, second) == []
    assert _narrow(first)
    assert _narrow(second)


def test_gradient_route_test_can_fail() -> None:
    """A scale that is one ulp away, or a lost softcap, is a disagreement in every gradient."""
    q, k, v, _ = _cases()["plain"]
    do, _ = _upstream("plain", q, v)
    first = exact.attention_gradients(q, k, v, do, scale=0.25)
    other = arb.attention_gradients(q, k, v, do, scale=float(np.nextafter(0.25, 1)))
    for name in ("dq", "dk", "dv"):
        assert len(disagreements(first.parts()[name], other.parts()[name])) > 5


@pytest.mark.parametrize("seed", range(40))
def test_gradient_routes_agree_on_random_specials(seed: int) -> None:
    """Random shapes and options, NaN, infinities and zeros strewn in: classes and values agree."""
    rng = np.random.default_rng(seed)
    heads, n_q, n_k = 2 * int(rng.integers(1, 3)), int(rng.integers(1, 6)), int(rng.integers(0, 7))
    d, d_v, share = int(rng.integers(1, 7)), int(rng.integers(1, 4)), rng.choice([0.01, 0.05])
    bias_shape = [(1, 1, n_q, n_k), (heads, 1, n_k), (1,), (heads, n_q, 1)][int(rng.integers(4))]
    q, k, v, do, dlse, bias, sinks = (
        _strewn(rng, _normal(seed, *shape), share)
        for shape in (
            (1, heads, n_q, d), (1, 2, n_k, d), (1, 2, n_k, d_v), (1, heads, n_q, d_v),
            (1, heads, n_q), bias_shape, (heads,),
        )
    )  # fmt: skip
    choose = random.Random(seed).choice
    options: dict[str, Any] = {
        "scale": choose([None, 0.5, -1.0, 0.0]),
        "softcap": choose([None, 5.0]),
        "bias": choose([None, bias]),
        "sinks": choose([None, sinks]),
        "dlse": choose([None, dlse]),
        "causal": choose([False, True]),
        "corner": choose(["bottom-right", "top-left"]),
        "window": choose([None, (-1, 1), (0, 0), (2, -1)]),
    }
    first, second = (route.attention_gradients(q, k, v, do, **options) for route in (exact, arb))
    assert gradient_disagreements(first, second) == []


@pytest.mark.parametrize("name", OPTIONS)
def test_gradient_routes_agree_under_every_option(name: str) -> None:
    """The calls that are differentiated numerically, broadcast biases among them."""
    call = make(name)
    first, better = call.by(arb.attention_gradients), call.by(exact.attention_gradients)
    assert gradient_disagreements(first, better) == []


def test_arb_gradients_enclose_central_differences() -> None:
    """All options at once, dQ, dK and the sinks."""
    call = make("everything")
    found = call.by(arb.attention_gradients).parts()
    for tensor in ("q", "k", "sinks"):
        values = central_differences(call, tensor)
        assert outside(found["d" + tensor], values, Fraction(1, 2**180)) == 0


def test_gradients_of_chosen_rows_add_up() -> None:
    """Two complementary choices of rows: dq of each, and sums that add to the whole."""
    call = make("everything")
    whole = call.by(arb.attention_gradients)
    places = list(np.ndindex(*call.tensors["q"].shape[:3]))
    parts = [call.by(arb.attention_gradients, rows=iter(places[i::2])) for i in range(2)]
    for i, part in enumerate(parts):
        for row in places:
            assert np.isfinite(part.dq.radius[row]).all() == (row in places[i::2])
            if row in places[i::2]:
                assert np.array_equal(part.dq.hi[row], whole.dq.hi[row])
    for name in ("dk", "dv", "dbias", "dsinks"):
        first, second = (part.parts()[name] for part in parts)
        total = replace(first, hi=first.hi + second.hi, lo=first.lo + second.lo)
        assert np.allclose(total.hi, whole.parts()[name].hi, 1e-12, 1e-14)


@pytest.mark.parametrize("seed", range(12))
def test_softmax_gradient_routes_agree(seed: int) -> None:
    """Normal and wide rows, specials strewn into x and dy."""
    rng = np.random.default_rng(seed)
    source = _wide if seed % 3 == 2 else _normal
    x, dy = source(seed, 6, 5), source(seed + 100, 6, 5)
    if seed % 3 == 1:
        x, dy = (_strewn(rng, y, 0.1) for y in (x, dy))
    for name in ("softmax_gradient", "log_softmax_gradient"):
        first, second = (getattr(route, name)(x, dy) for route in (exact, arb))
        assert disagreements(first, second) == []
        assert np.isfinite(first.radius[first.classes == FINITE]).all()
        assert np.isfinite(second.radius[second.classes == FINITE]).all()
