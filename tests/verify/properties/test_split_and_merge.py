"""The bound of a merge holds for all that the bounds of the parts allow, and bites beyond."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from references.enclosure import ARB, FINITE, Enclosure
from verify.certificate import Record
from verify.judge import Verdict
from verify.properties.split_and_merge import Part, _compared, merged, merged_bound
from verify.truth import Truth

SHAPE = (1, 2, 4, 8)
GENERATOR = np.random.default_rng(7)
RECORD = Record("x", "x", Verdict.PASS, "", "bound", {"name": "attention"}, {}, {}, "")


def exact(values: Any) -> Enclosure:
    """An enclosure without a radius."""
    values = np.asarray(values, np.float64)
    zero, ones = np.zeros(values.shape), np.ones(values.shape, np.uint8)
    tier = np.full(values.shape[:-1], ARB, np.uint8)
    return Enclosure(values, zero, zero, ones * FINITE, tier)


def part(spread: float, size: float) -> Part:
    """A part that returns its exact output and log-sum-exp."""
    lse = spread * GENERATOR.normal(size=SHAPE[:3])
    output = GENERATOR.normal(size=SHAPE)
    truth = Truth(exact(output), exact(lse))
    bound = size * (1 + GENERATOR.random(SHAPE))
    return Part(output, lse, truth, lse, bound, size * (1 + GENERATOR.random(SHAPE[:3])))


def wrong(p: Part, share: float) -> Part:
    """The same part, off by a share of its bounds with signs that are drawn."""
    signs = GENERATOR.choice([-1.0, 1.0], SHAPE), GENERATOR.choice([-1.0, 1.0], SHAPE[:3])
    return replace(
        p, output=p.output + share * signs[0] * p.bound, lse=p.lse + share * signs[1] * p.b
    )


@pytest.mark.parametrize("size", [1e-7, 1e-3, 0.5])
@pytest.mark.parametrize("spread", [0.1, 3.0, 30.0])
def test_merge_of_parts_at_their_bounds_stays_within_the_bound(spread: float, size: float) -> None:
    """And comes near it: no slack beyond the signs. (Section 13 of docs/theory/bounds.md.)"""
    one, two = part(spread, size), part(spread, size)
    truth = merged(one, two)
    reached = np.zeros(SHAPE)
    for _ in range(30):
        found = merged(wrong(one, 1.0), wrong(two, 1.0))
        error = np.abs((found.hi - truth.hi) + (found.lo - truth.lo)).reshape(SHAPE)
        # The wrong numbers are rounded to float64 here; outputs and log-sum-exps are below 128.
        reached = np.maximum(reached, (error - 2.0**-45) / merged_bound(one, two))
    assert reached.max() <= 1
    assert np.median(reached) > 0.5


def test_merge_beyond_the_bound_is_refuted_and_within_it_is_not() -> None:
    """The same parts, once at their bounds and once at four times them."""
    one, two = part(2.0, 1e-3), part(2.0, 1e-3)
    truth = merged(one, two)
    shaped = Enclosure(
        truth.hi.reshape(SHAPE),
        truth.lo.reshape(SHAPE),
        truth.radius.reshape(SHAPE),
        truth.classes.reshape(SHAPE),
        truth.tier.reshape(SHAPE[:3]),
    )
    assert _compared(RECORD, wrong(one, 1.0), wrong(two, 1.0), shaped).verdict is Verdict.PASS
    told = _compared(RECORD, wrong(one, 4.0), wrong(two, 4.0), shaped)
    assert told.verdict is Verdict.FAIL
    assert told.check == "property:split_and_merge"
    assert "beyond the bound of the two parts" in told.reason


def test_part_that_promises_nothing_permits_everything() -> None:
    """An infinite bound of a log-sum-exp gives an infinite bound of the merge, never NaN."""
    one, two = part(2.0, 1e-3), part(2.0, 1e-3)
    open_ended = replace(one, b=np.full(SHAPE[:3], np.inf))
    assert np.isposinf(merged_bound(open_ended, two)).all()
