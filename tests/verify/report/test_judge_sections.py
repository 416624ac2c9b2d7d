"""Sections about the judge: gates of others, power, and the statistical tier of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from references.enclosure import ARB, FINITE, Enclosure
from tests.verify.report.factory import certificate, record
from verify.metrics import detectable, error_interval
from verify.report import published
from verify.report.sections import other_gates, power, statistical
from verify.selftest.power import DEFECTS, NOT_CERTIFIABLE
from verify.selftest.published import packed


def exact(values: list[float]) -> Enclosure:
    hi = np.asarray(values)
    zero, classes = np.zeros(hi.shape), np.full(hi.shape, FINITE, np.uint8)
    return Enclosure(hi, zero, zero, classes, np.full((), ARB, np.uint8))


def test_an_error_above_the_detectable_size_exceeds_the_bound_and_one_below_may_not() -> None:
    """Planted in every output of a kernel whose own errors have the other sign."""
    truth = exact([1.0, -2.0, 0.0, 1e-3])
    out = truth.hi + np.array([-1e-4, 3e-4, 0.0, -2e-4])
    bound, use = np.array([1e-3, 1e-3, 1e-9, 1e-3]), np.ones(4, np.bool_)
    size = detectable(bound, error_interval(out, truth), truth, use)
    assert size == pytest.approx((1e-3 + 3e-4) / 2)
    assert size is not None
    for factor, seen in ((1.0001, True), (0.999, False)):
        planted = out + size * factor * truth.hi
        assert bool((np.abs(planted - truth.hi) > bound).any()) is seen


def test_nothing_is_detectable_where_nothing_is_judged() -> None:
    """Zeros, flagged elements and infinite bounds."""
    truth = exact([0.0, 1.0, 1.0])
    error = error_interval(truth.hi, truth)
    bound = np.array([1.0, np.inf, 1.0])
    assert detectable(bound, error, truth, np.array([True, True, False])) is None


def test_gradients_and_softmax_have_no_estimate() -> None:
    """No number stands where the bound stands in for the estimate: a 0 would read as a check."""
    found = certificate()
    for operation, cells in (("attention", 0), ("attention_backward", 3), ("softmax", 3)):
        kernel = {**found.kernel, "operation": operation}
        text = statistical._html([replace(found, kernel=kernel)])
        assert text.count("no estimate") == cells


def test_statistical_section_counts_marks_and_names_the_power() -> None:
    """The smallest size over the cases, and the case that gave it."""
    weak = record(name="a", metrics={"refutes_from": 0.25, "suspects_from": 0.125})
    strong = record(name="b", metrics={"refutes_from": 0.0625, "suspects_from": None})
    marked = replace(strong, counts={**strong.counts, "suspect": 7})
    found = certificate(records=(weak, marked))
    assert statistical.smallest(found.records, "refutes_from") == (0.0625, marked.case)
    text = statistical._html([found])
    assert "0.0625" in text
    assert "0.125" in text
    assert marked.case in text


def test_published_tables_are_shown_with_their_version() -> None:
    """Each gate with its rule; each format of the certificates with its power."""
    gates = other_gates._html([certificate()])
    assert published.origin() in gates
    assert all(name in gates for name in published.tables()["gates"])
    shown = power._html([certificate(fmt="bf16")])
    assert "additive bias" in shown
    assert NOT_CERTIFIABLE in shown
    assert "fp16" not in shown


def test_published_power_has_every_defect_in_every_cell() -> None:
    """A size or a reason; never nothing."""
    for families in published.tables()["power"].values():
        for by_n in families.values():
            for cell in by_n.values():
                assert set(cell) == set(DEFECTS)


def test_packing_keeps_what_each_gate_said() -> None:
    """Controls by the gates that accept them, right kernels by those that reject them."""
    answers = {"a": "accepted", "b": "rejected", "c": ""}
    peers: dict[str, Any] = {
        "gates": {},
        "kernels": {"control-x": {"fp16": answers}, "right-y": {"fp16": answers}},
    }
    sizes = {"fp16": {"needle": {"8": {"scale": 0.123456, "bias": NOT_CERTIFIABLE}}}}
    found = packed(peers, sizes)
    assert found["accepted"] == {"x": {"fp16": ["a"]}}
    assert found["right_rejected"] == {"y": {"fp16": ["b"]}}
    assert found["power"]["fp16"]["needle"]["8"] == {"scale": 0.123, "bias": NOT_CERTIFIABLE}
