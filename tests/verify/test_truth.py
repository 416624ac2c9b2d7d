"""Truth: which rows a declaration takes out of judgement, and no others; signs of a loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import references
from references.enclosure import Enclosure
from verify.audit import require_overlap
from verify.case import Inputs, Tensor
from verify.declaration import Declaration
from verify.formats import BINARY16, BINARY32
from verify.operation import Operation
from verify.truth import Oracle

LEAKS = Declaration(masked_nonfinite="leaks")
HOLDS = Declaration()


def unspecified(k: list[float], v: list[float], q: float, declared: Declaration) -> list[bool]:
    """Two causal queries of length 1 on two keys: the first row does not see the second key."""
    column = (1, 1, 2, 1)
    tensors = {
        "q": Tensor.rounded(BINARY32, np.full(column, q)),
        "k": Tensor.rounded(BINARY32, np.reshape(k, column)),
        "v": Tensor.rounded(BINARY32, np.reshape(v, column)),
    }
    operation = Operation("attention", scale=2.0**-100, causal=True)
    found = Oracle(audit=0).truth(operation, Inputs(tensors), declared)
    assert found.unspecified is not None
    return [bool(x) for x in found.unspecified[0, 0]]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows_that_do_not_see_a_nonfinite_value_are_out_where_it_may_leak(bad: float) -> None:
    """The first row does not see it, and is free; the second sees it, and has a truth."""
    for k, v in (([1.0, bad], [1.0, 1.0]), ([1.0, 1.0], [1.0, bad])):
        assert unspecified(k, v, 1.0, LEAKS) == [True, False]
        assert unspecified(k, v, 1.0, HOLDS) == [False, False]
    assert unspecified([bad, 1.0], [1.0, 1.0], 1.0, LEAKS) == [False, False]


@pytest.mark.parametrize(("share", "free"), [(0.68, False), (0.7, True), (1.0, True)])
def test_hidden_products_that_overflow_times_log2_e_are_out(share: float, free: bool) -> None:
    """1 / log2 e = 0.693 of the largest number: exp2 kernels multiply scores by log2 e."""
    assert unspecified([1.0, share * BINARY32.largest], [1.0, 1.0], 1.0, LEAKS) == [free, False]
    assert unspecified([1.0, share * BINARY32.largest], [1.0, 1.0], 1.0, HOLDS) == [False, False]


def test_loss_is_the_negative_of_both_parts() -> None:
    """hi + lo of the fast tier, against mpmath to far more digits than hi alone has."""
    x = np.random.default_rng(5).standard_normal((6, 33))
    target = np.arange(6) * 5
    tensors = {"x": Tensor.rounded(BINARY32, x)}
    inputs = Inputs(tensors, None, {"target": target})
    loss = Oracle(audit=0).truth(Operation("cross_entropy"), inputs, HOLDS).output
    exact = references.log_softmax(inputs["x"].values, tier="exact")
    rows = np.arange(6)
    radius, classes = exact.radius[rows, target], exact.classes[rows, target]
    negative = Enclosure(
        -exact.hi[rows, target], -exact.lo[rows, target], radius, classes, exact.tier
    )
    require_overlap(loss, negative, "loss")
    assert (np.abs(loss.lo) > loss.radius).any()


@pytest.mark.parametrize("bad", [np.nan, BINARY32.largest])
def test_a_removed_value_takes_no_probability_out(bad: float) -> None:
    """Two causal queries; the second key is removed from the first row.  By its value it may leak
    into dS of that row, by its key into P as well."""
    column = (1, 1, 2, 1)
    for k, v, by_score in (([1.0, bad], [1.0, 1.0], True), ([1.0, 1.0], [1.0, bad], False)):
        tensors = {
            name: Tensor.rounded(BINARY32, np.reshape(values, column))
            for name, values in {"q": [2.0, 2.0], "k": k, "v": v, "do": [2.0, 2.0]}.items()
        }
        operation = Operation("attention_backward", scale=2.0**-100, causal=True)
        found = Oracle(audit=0).truth(operation, Inputs(tensors), LEAKS)
        assert found.unspecified is not None
        assert found.unspecified_p is not None
        assert found.unspecified[0, 0].tolist() == [True, False]
        assert found.unspecified_p[0, 0].tolist() == [by_score, False]
        assert Oracle(audit=0).truth(operation, Inputs(tensors), HOLDS).unspecified is None


@pytest.mark.parametrize(
    ("model", "free"),
    [
        ({"dp_format": "fp16"}, True),
        ({"fp16": {"dp_format": "fp16"}, "fp32": {}}, True),
        ([{"dp_format": None}, {"dp_format": "fp16"}], True),
        ({"fp16": {"dp_format": None}}, False),
        ({"p_format": "fp16"}, False),
        ("flash", True),
        (None, True),
    ],
)
def test_a_removed_product_counts_in_the_format_that_dp_is_kept_in(model: Any, free: bool) -> None:
    """dO v = 65504 2 is beyond binary16 and far inside binary32."""
    column = (1, 1, 2, 1)
    values = {"q": [1.0, 1.0], "k": [1.0, 1.0], "v": [1.0, 65504.0], "do": [2.0, 2.0]}
    tensors = {name: Tensor.rounded(BINARY16, np.reshape(x, column)) for name, x in values.items()}
    operation = Operation("attention_backward", scale=2.0**-10, causal=True)
    declared = Declaration(masked_nonfinite="leaks", model=model)
    found = Oracle(audit=0).truth(operation, Inputs(tensors), declared)
    assert found.unspecified is not None
    assert found.unspecified_p is not None
    assert found.unspecified[0, 0].tolist() == [free, False]
    assert not found.unspecified_p.any()
