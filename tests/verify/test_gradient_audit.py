"""A sample of every run's gradients is made again by mpmath, and a difference stops the run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import references
from verify.case import Inputs
from verify.declaration import Declaration
from verify.errors import OracleError
from verify.formats import FORMATS
from verify.operation import Operation
from verify.truth import Oracle


def _inputs(n_q: int, n_k: int, d: int) -> Inputs:
    rng = np.random.default_rng(4)
    shapes = {
        "q": (2, 4, n_q, d), "k": (2, 2, n_k, d), "v": (2, 2, n_k, d), "do": (2, 4, n_q, d),
        "bias": (1, 4, 1, n_k), "sinks": (4,),
    }  # fmt: skip
    arrays = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    return Inputs.rounded(FORMATS["bf16"], arrays)


OPERATION = Operation("attention_backward", causal=True, softcap=2.0, window=(6, -1))


def test_gradients_are_audited() -> None:
    """One row of dq of a large call, and all of a small one, with every option."""
    oracle = Oracle()
    for inputs in (_inputs(7, 9, 4), _inputs(20, 40, 16)):
        truth = oracle.truth(OPERATION, inputs, Declaration())
        assert set(truth.gradients) == {"dq", "dk", "dv", "dbias", "dsinks"}
    assert oracle.audits == 2


@pytest.mark.parametrize(("name", "n_q", "n_k", "d"), [("dq", 20, 40, 16), ("dk", 5, 6, 4)])
def test_a_wrong_gradient_stops_the_run(
    monkeypatch: pytest.MonkeyPatch, name: str, n_q: int, n_k: int, d: int
) -> None:
    """A fast tier whose dq (or, in a small call, dk) is off by 2^-60 of itself."""
    right = references.attention_gradients

    def wrong(*tensors: Any, tier: str, **options: Any) -> Any:
        found = right(*tensors, tier=tier, **options)
        if tier == "exact":
            return found
        part = found.parts()[name]
        changed: dict[str, Any] = {name: replace(part, lo=part.lo + part.hi * 2.0**-60)}
        return replace(found, **changed)

    monkeypatch.setattr(references, "attention_gradients", wrong)
    with pytest.raises(OracleError, match="disagree"):
        Oracle().truth(OPERATION, _inputs(n_q, n_k, d), Declaration())


@pytest.mark.parametrize("name", ["softmax_backward", "log_softmax_backward"])
def test_gradients_of_rows_are_audited(name: Any) -> None:
    """One row of dx."""
    rng = np.random.default_rng(4)
    arrays = {key: rng.standard_normal((5, 30)) for key in ("x", "dy")}
    oracle = Oracle()
    oracle.truth(Operation(name), Inputs.rounded(FORMATS["fp16"], arrays), Declaration())
    assert oracle.audits == 1
