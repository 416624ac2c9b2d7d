"""The radius of the fast tiers' gradients never lies: random inputs over full exponent ranges."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from references import arb, fast
from references.enclosure import ARB, FINITE, Array, AttentionGradients, Enclosure
from tests.references.test_fast_fuzz import (
    EXTRA_BITS,
    FORMATS,
    integers,
    near_ties,
    normal,
    outliers,
    random_case,
    rounded,
    tensor,
)

SAMPLE = 100  # elements of one gradient in one case
GENTLE = (normal, integers, outliers, near_ties)


@dataclass(frozen=True)
class Case:
    """q, k, v, dO; options hold dlse too."""

    tensors: tuple[Array, Array, Array, Array]
    options: dict[str, Any] = field(default_factory=dict)

    def by(self, gradients: Callable[..., AttentionGradients], **more: Any) -> AttentionGradients:
        return gradients(*self.tensors, **self.options, **more)


def _gentle(r: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers of a format without its ends, so that the fast tiers take (almost) all rows."""
    name, low, high = FORMATS[r.integers(3)]
    flat = (int(np.prod(shape[:-1])), shape[-1])
    return rounded(GENTLE[r.integers(len(GENTLE))](r, flat, low, high), name).reshape(shape)


def _broadcast_bias(r: np.random.Generator, bias: Array, heads: int) -> Array:
    """The bias of a case in one of the shapes that broadcast to (1, heads, n_q, n_k)."""
    n_q, n_k = bias.shape
    full = np.broadcast_to(bias, (heads, n_q, n_k))
    shapes = (bias, full.copy(), bias[:1], bias[:, :1], full[:, :1, :1].copy(), bias[:1, :1])
    return np.ascontiguousarray(shapes[r.integers(len(shapes))])


def gradient_case(r: np.random.Generator) -> Case:
    """A case of the forward pass with what is upstream; half of them with gentle numbers."""
    case = random_case(r)
    shapes = (case.q.shape, case.k.shape, case.v.shape, (*case.q.shape[:3], case.v.shape[3]))
    make = _gentle if r.random() < 0.6 else tensor
    tensors = [make(r, shape) for shape in shapes]
    options = dict(case.options)
    if "bias" in options:
        options["bias"] = _broadcast_bias(r, options["bias"], case.q.shape[1])
    if "sinks" in options and r.random() < 0.3:
        options["sinks"] = options["sinks"] * 2.0 ** float(r.integers(1, 100))
    if r.random() < 0.3:
        options["dlse"] = make(r, case.q.shape[:3])
    return Case((tensors[0], tensors[1], tensors[2], tensors[3]), options)


@dataclass
class Tally:
    """What a run of cases found."""

    elements: dict[str, int] = field(default_factory=dict)  # of the fast tiers, by gradient
    by_arb: int = 0
    misses: int = 0
    ratios: list[float] = field(default_factory=list)  # distance/radius where both are above 0

    def add(self, found: AttentionGradients, truth: AttentionGradients) -> None:
        """Counts elements; a miss is a point of the fast tiers' that the truth excludes."""
        for name, part in found.parts().items():
            other = truth.parts()[name]
            assert np.array_equal(part.classes, other.classes)
            quick = part.tier != ARB
            if name in ("dq", "dk", "dv"):
                quick = np.broadcast_to(quick[..., None], part.shape)
            self.by_arb += int((~quick).sum())
            known = quick & np.isfinite(part.radius) & (part.classes == FINITE)
            places = np.argwhere(known)
            if len(places) > SAMPLE:
                places = np.random.default_rng(len(places)).permutation(places)[:SAMPLE]
            self.elements[name] = self.elements.get(name, 0) + len(places)
            for place in places:
                self._compare(part, other, tuple(place))
            size, right = found.magnitude[name], truth.magnitude[name]
            lost = np.max(part.radius, where=np.isfinite(part.radius), initial=0.0)
            assert np.allclose(size, right, 2.0**-20, 1e-100 + lost, equal_nan=True)

    def _compare(self, found: Enclosure, truth: Enclosure, place: tuple[Any, ...]) -> None:
        mine, other = (
            Fraction(float(e.hi[place])) + Fraction(float(e.lo[place])) for e in (found, truth)
        )
        radius = Fraction(float(found.radius[place]))
        distance = abs(mine - other) - Fraction(float(truth.radius[place]))
        self.misses += distance > radius
        if distance > 0 and radius > 0:
            self.ratios.append(float(distance / radius))


@cache
def tally(seed: int, cases: int) -> Tally:
    """What so many random cases give."""
    r, found = np.random.default_rng(seed), Tally()
    for _ in range(cases):
        case = gradient_case(r)
        truth = case.by(arb.attention_gradients, extra_bits=EXTRA_BITS)
        found.add(case.by(fast.attention_gradients), truth)
    return found


def test_random_gradients_lie_inside_their_radius() -> None:
    """No miss in dq, dk, dv, dbias, dsinks; a hundredth of the radius would not do."""
    found = tally(seed=1, cases=40)
    assert found.misses == 0
    assert max(found.ratios) > 0.01
    assert min(found.elements[name] for name in ("dq", "dk", "dv", "dbias", "dsinks")) > 0


def test_a_gradient_radius_that_is_too_small_is_found() -> None:
    """The same elements with every radius divided by a hundred: some lie outside."""
    assert sum(ratio > 1 / 100 for ratio in tally(seed=1, cases=40).ratios) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_many_random_gradients_lie_inside_their_radius(seed: int) -> None:
    """20 seeds of 250 cases."""
    found = tally(seed, cases=250)
    assert found.misses == 0
    assert max(found.ratios) > 0.01


# --- mistakes, made on purpose -------------------------------------------------------------------


def _plain_case() -> Case:
    r = np.random.default_rng(5)
    shapes = ((1, 1, 70, 24), (1, 1, 80, 24), (1, 1, 80, 5), (1, 1, 70, 5))
    q, k, v, do = (rounded(r.standard_normal(shape), "float32") for shape in shapes)
    return Case((q, k, v, do), {"softcap": 3.0})


def _misses() -> dict[str, int]:
    """Misses by gradient."""
    case, found = _plain_case(), {}
    mine, truth = case.by(fast.attention_gradients), case.by(arb.attention_gradients)
    for name in ("dq", "dk", "dv"):
        one = Tally()
        for place in np.ndindex(mine.parts()[name].shape):
            one._compare(mine.parts()[name], truth.parts()[name], place)
        found[name] = one.misses
    return found


def test_no_mistake_gives_no_miss() -> None:
    """The reference for the next test."""
    assert set(_misses().values()) == {0}


@pytest.mark.parametrize(
    ("module", "function", "argument", "hit"),
    [
        ("gradient_block", "normalise", 1, ("dq", "dk", "dv")),  # the low words of p
        ("gradient_block", "differentiate", 3, ("dq", "dk")),  # those of dS
        ("gradient_block", "damp", 6, ("dq", "dk")),  # those of dT
        ("lanes", "merge", 0, ("dk", "dv")),  # the sums of one block of rows
    ],
)
def test_words_that_get_lost_are_found(
    monkeypatch: pytest.MonkeyPatch, module: str, function: str, argument: int, hit: tuple[str, ...]
) -> None:
    """After one step (or before a merge) something is set to 0: exactly what it enters misses."""
    place = importlib.import_module(f"references.fast.{module}")
    right = getattr(place, function)

    def wrong(*arguments: Any) -> None:
        if function == "merge":  # (part, start, whole): what the block's sums hold in low words
            arguments[argument][1] = 0.0
            right(*arguments)
        else:
            right(*arguments)
            arguments[argument][:] = 0.0

    monkeypatch.setattr(place, function, wrong)
    assert {name for name, count in _misses().items() if count} == set(hit)
