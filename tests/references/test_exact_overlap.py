"""Do two enclosures of the same number agree?  The comparison that the other tests rely on.

`disagreements` is exact (rational arithmetic), and the tests here show that it can fail.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from references import arb, exact
from references.enclosure import AttentionTruth, Enclosure


def disagreements(first: Enclosure, second: Enclosure) -> list[str]:
    """The elements where classes differ, or where no number lies in both enclosures."""
    found = [
        f"{place}: classes {first.classes[place]} and {second.classes[place]}"
        for place in np.ndindex(first.shape)
        if first.classes[place] != second.classes[place]
    ]
    return found + [
        f"{place}: {first.hi[place]!r} and {second.hi[place]!r} do not overlap"
        for place in np.ndindex(first.shape)
        if not _overlap(first, second, place)
    ]


def _overlap(first: Enclosure, second: Enclosure, place: tuple[int, ...]) -> bool:
    words = [float(w[place]) for w in (first.hi, first.lo, second.hi, second.lo)]
    radii = [float(e.radius[place]) for e in (first, second)]
    if not all(map(math.isfinite, words)):
        return bool(np.array_equal(words[0], words[2], equal_nan=True))
    if math.inf in radii:
        return True
    a, b, c, d = map(Fraction, words)
    return abs(a + b - c - d) <= sum(map(Fraction, radii))


def truth_disagreements(first: AttentionTruth, second: AttentionTruth) -> list[str]:
    """The same for all that an attention call returns."""
    found = disagreements(first.output, second.output) + disagreements(first.lse, second.lse)
    for place in np.ndindex(first.magnitude.shape):
        if not np.isclose(first.magnitude[place], second.magnitude[place], 2.0**-20, 1e-320, True):
            found.append(f"{place}: magnitudes differ")
    return found


def contains(outer: Enclosure, inner: Enclosure) -> bool:
    """Every element of inner's enclosure lies inside outer's, up to inner's own radius."""
    for place in np.ndindex(outer.shape):
        if np.isfinite(outer.hi[place]):
            words = (outer.hi, outer.lo, inner.hi, inner.lo)
            a, b, c, d = (Fraction(float(w[place])) for w in words)
            slack = Fraction(float(outer.radius[place])) + Fraction(float(inner.radius[place]))
            if abs(a + b - c - d) > slack:
                return False
    return True


def _calls() -> tuple[AttentionTruth, AttentionTruth]:
    rng = np.random.default_rng(7)
    q, k, v = (rng.standard_normal((1, 1, 3, 4)).astype(np.float32).astype(float) for _ in "qkv")
    return exact.attention(q, k, v), arb.attention(q, k, v)


def test_overlap_finds_no_fault_in_two_correct_enclosures() -> None:
    """The comparison is silent where both routes are right."""
    assert truth_disagreements(*_calls()) == []


@pytest.mark.parametrize("part", ["output", "lse"])
def test_overlap_fails_when_a_value_moves_by_four_radii(part: str) -> None:
    """A defect of four radii (both together) in any single element is found: the check can fail."""
    first, second = (getattr(truth, part) for truth in _calls())
    for place in np.ndindex(first.shape):
        lo = first.lo.copy()
        radius = max(first.radius[place], second.radius[place])
        lo[place] += max(4 * radius, 2 * np.spacing(abs(lo[place])))  # at least what lo can hold
        found = disagreements(replace(first, lo=lo), second)
        assert len(found) == 1
        assert str(place) in found[0]


def test_overlap_fails_when_classes_differ() -> None:
    """Accepting NaN in one route only is a disagreement."""
    first, second = (truth.lse for truth in _calls())
    classes = first.classes.copy()
    classes[0, 0, 1] |= 8
    assert len(disagreements(replace(first, classes=classes), second)) == 1
