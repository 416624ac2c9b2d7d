"""Gradients by the fast tiers: agreement with Arb, what falls back, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import references
from references import arb, fast
from references.enclosure import ARB, FAST, FAST_PLUS, FINITE, NAN, Array, AttentionGradients
from tests.references.gradient_cases import OPTIONS, make
from tests.references.test_arb_agreement import _cases, _float32, _normal, _strewn, _wide
from tests.references.test_exact_overlap import disagreements

LOST = 2.0**-250  # what keys whose weight is below 2^-432 may add
Tensors = tuple[Array, Array, Array, Array]
# Outside of binary32, which this tier asks for.
CASES = {name: case for name, case in _cases().items() if name != "float64_extremes"}


def _disagreements(first: AttentionGradients, second: AttentionGradients) -> list[str]:
    found = []
    for name, part in first.parts().items():
        found += [f"{name}{text}" for text in disagreements(part, second.parts()[name])]
        size, other = first.magnitude[name], second.magnitude[name]
        if not np.allclose(size, other, 2.0**-20, LOST, equal_nan=True):
            found.append(f"{name}: magnitudes differ")
        known = part.classes == FINITE
        if not (part.radius <= 2.0**-80 * size + LOST)[known].all():
            found.append(f"{name}: wide")
    return found


def _tensors(heads: int, n_q: int, n_k: int, d: int = 16, d_v: int = 9) -> Tensors:
    shapes = (1, heads, n_q, d), (1, 1, n_k, d), (1, 1, n_k, d_v), (1, heads, n_q, d_v)
    q, k, v, do = (_normal(i, *shape) for i, shape in enumerate(shapes))
    return q, k, v, do


@pytest.mark.parametrize("name", CASES)
def test_fast_gradients_agree_with_arb(name: str) -> None:
    """Hard cases, with a dLSE: classes, enclosures, magnitudes; every radius is what was asked."""
    q, k, v = map(_float32, CASES[name][:3])
    options = {**CASES[name][3], "dlse": _normal(21, *q.shape[:3])}
    do = _normal(20, *q.shape[:3], v.shape[3])
    for extra in ("bias", "sinks"):
        if extra in options:
            options[extra] = np.asarray(options[extra], np.float32).astype(np.float64)
    first, second = (route.attention_gradients(q, k, v, do, **options) for route in (fast, arb))
    assert _disagreements(first, second) == []


@pytest.mark.parametrize("name", OPTIONS)
def test_fast_gradients_agree_with_arb_under_every_option(name: str) -> None:
    """Broadcast biases, sinks, masks with empty rows; these are made without Arb."""
    call = make(name)
    scale = call.options.get("scale")
    if scale is not None:
        call = replace(call, options={**call.options, "scale": float(np.float32(scale))})
    first, second = call.by(fast.attention_gradients), call.by(arb.attention_gradients)
    assert _disagreements(first, second) == []
    assert all((part.tier != ARB).all() for part in first.parts().values())


def test_many_blocks_of_rows_and_keys_agree_with_arb() -> None:
    """Several blocks, the last one short, two query heads, causal: partial ranges of keys."""
    q, k, v, do = _tensors(heads=2, n_q=150, n_k=200)
    options: dict[str, Any] = {"causal": True, "window": (70, 0)}
    first, second = (route.attention_gradients(q, k, v, do, **options) for route in (fast, arb))
    assert _disagreements(first, second) == []
    assert (first.dk.tier == FAST).all()


def test_fast_gradient_test_can_fail() -> None:
    """A dO that is one binary32 ulp away in one element shows in dv, dk and its row of dq."""
    q, k, v, do = _tensors(heads=1, n_q=5, n_k=6)
    other = do.copy()
    other[0, 0, 2, 3] = np.nextafter(np.float32(do[0, 0, 2, 3]), np.float32(9))
    first = fast.attention_gradients(q, k, v, do)
    second = arb.attention_gradients(q, k, v, other)
    assert len(disagreements(first.dq, second.dq)) == q.shape[3]
    assert len(disagreements(first.dk, second.dk)) == k[0, 0].size
    assert len(disagreements(first.dv, second.dv)) == k.shape[2]


def test_rows_that_the_fast_tier_cannot_make_are_added_by_arb() -> None:
    """One query with scores of 2^120: its row comes from Arb, its part of dk, dv, dbias too."""
    q, k, v, do = _tensors(heads=2, n_q=70, n_k=40)
    q[0, 1, 33] *= 2.0**120
    options: dict[str, Any] = {"bias": _normal(7, 40), "sinks": np.zeros(2)}
    first, second = (route.attention_gradients(q, k, v, do, **options) for route in (fast, arb))
    assert _disagreements(first, second) == []
    assert first.dq.tier[0, 1, 33] == ARB
    assert (np.delete(first.dq.tier[0, 1], 33) == FAST).all()
    assert (first.dk.tier == FAST).all()


@pytest.mark.parametrize("sink", [2.0**100, -(2.0**100), 500.0, -500.0])
def test_sinks_far_from_the_scores_agree_with_arb(sink: float) -> None:
    """All weight on the sink, or none; rows without keys, whose sink weighs 1; by the fast tier."""
    q, k, v, do = _tensors(heads=1, n_q=6, n_k=4)
    dlse, mask = _normal(9, 1, 1, 6), np.arange(6)[:, None] > 2
    options: dict[str, Any] = {"sinks": np.array([sink]), "mask": mask, "dlse": dlse}
    first, second = (route.attention_gradients(q, k, v, do, **options) for route in (fast, arb))
    assert _disagreements(first, second) == []
    if abs(sink) < 1000:
        assert (first.dq.tier != ARB).all()
    assert first.dsinks is not None
    assert first.dsinks.hi[0] != 0.0


def test_sums_that_three_slices_do_not_hold_take_four() -> None:
    """A key column far below the others, on which dS is largest: four slices, not Arb."""
    q, k, v, do = _tensors(heads=1, n_q=64, n_k=64)
    k[..., 0] = _float32(2.0 ** np.linspace(0, -45, 64))
    q[..., 0] = 0.0
    v[0, 0, :32] *= 2.0**-30
    first, second = (route.attention_gradients(q, k, v, do) for route in (fast, arb))
    assert _disagreements(first, second) == []
    assert (first.dk.tier == FAST_PLUS).all() or (first.dk.tier == FAST).all()


def test_gradients_of_a_call_with_nan_are_those_of_arb() -> None:
    """NaN in one value: the classes of Arb."""
    q, k, v, do = _tensors(heads=1, n_q=5, n_k=6)
    v[0, 0, 5, 0] = np.nan
    found = fast.attention_gradients(q, k, v, do, causal=True)
    assert disagreements(found.dk, arb.attention_gradients(q, k, v, do, causal=True).dk) == []
    assert (found.dq.classes[0, 0, -1] == NAN).all()
    assert (found.dq.classes[0, 0, 0] == FINITE).all()


@pytest.mark.parametrize("name", ["do", "dlse"])
def test_gradients_refuse_what_binary32_does_not_hold(name: str) -> None:
    """The value is named."""
    q, k, v, do = _tensors(heads=1, n_q=2, n_k=2)
    given: dict[str, Any] = {"do": do, "dlse": np.zeros((1, 1, 2))}
    given[name].reshape(-1)[0] = 0.1
    with pytest.raises(ValueError, match=f"{name} holds 0.1"):
        fast.attention_gradients(q, k, v, **given)


def test_gradients_refuse_wrong_shapes() -> None:
    """dO must have the shape of the output."""
    q, k, v, do = _tensors(heads=1, n_q=2, n_k=2)
    for route in (fast, arb, references.exact):
        with pytest.raises(ValueError, match="do has shape"):
            route.attention_gradients(q, k, v, do[..., :1])


def test_public_functions_choose_the_tier() -> None:
    """The tier that is asked for makes the gradients."""
    q, k, v, do = _tensors(heads=1, n_q=2, n_k=3)
    for tier, code in (("fast", FAST), ("arb", ARB), ("exact", 0)):
        assert (references.attention_gradients(q, k, v, do, tier=tier).dk.tier == code).all()
        for function in (references.softmax_gradient, references.log_softmax_gradient):
            assert (function(q[0, 0], do[0, 0, :, :1] + q[0, 0] * 0, tier=tier).tier == code).all()


# --- softmax and log_softmax ---------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", ["softmax_gradient", "log_softmax_gradient"])
def test_fast_gradients_of_rows_agree_with_arb(name: str, seed: int) -> None:
    """Normal and wide rows, specials strewn in: classes and enclosures."""
    source = _wide if seed % 3 == 2 else _normal
    x, dy = source(seed, 7, 90), source(seed + 50, 7, 90)
    if seed % 3 == 1:
        x, dy = (_strewn(np.random.default_rng(seed), y, 0.01) for y in (x, dy))
    first = getattr(fast, name)(x, dy)
    second = getattr(arb, name)(x, dy, extra_bits=300)
    assert disagreements(first, second) == []
    assert np.isfinite(first.radius[first.classes == FINITE]).all()
    if seed % 3 == 0:
        assert (first.tier == FAST).all()
        half = replace(first, radius=first.radius * 2.0**-16)
        assert disagreements(half, second) != []
