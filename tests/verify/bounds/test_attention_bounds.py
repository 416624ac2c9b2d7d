"""Theorem 1 against an own simulation of every model: never exceeded, and as tight as promised."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from references.decompose import Decomposition, decompose
from tests.verify.bounds.inputs import FAMILIES, OPTIONS, problem
from tests.verify.bounds.machine import Array
from tests.verify.bounds.models import CONTRACTS, FIELDS
from tests.verify.bounds.simulator import Problem, simulate
from verify.arithmetic import ArithmeticModel
from verify.bounds import Bound, Models, bound
from verify.case import Inputs, Tensor
from verify.formats import BINARY32, FORMATS
from verify.operation import Operation

SMALL, MIDDLE, LARGE = (5, 64, 32, 8), (3, 128, 64, 8), (3, 512, 128, 16)


def inputs_of(p: Problem, fmt: str) -> tuple[Inputs, Operation, Decomposition]:
    """The problem as a case of the suite, with its decomposition."""
    tensors = {name: Tensor.of(FORMATS[fmt], getattr(p, name)[None, None]) for name in "qkv"}
    if p.bias is not None:
        tensors["bias"] = Tensor.of(FORMATS[fmt], p.bias[None, None])
    sinks = None if p.sink is None else np.array([p.sink])
    if sinks is not None:
        tensors["sinks"] = Tensor.of(BINARY32, sinks)
    mask = p.visible[None, None]
    parts = decompose(
        p.q[None, None], p.k[None, None], p.v[None, None], scale=p.scale, mask=mask,
        bias=None if p.bias is None else p.bias[None, None], softcap=p.softcap, sinks=sinks,
    )  # fmt: skip
    operation = Operation("attention", scale=p.scale, softcap=p.softcap)
    return Inputs(tensors, mask=mask), operation, parts


@dataclass(frozen=True)
class Outcome:
    """Errors against bounds of one simulated kernel."""

    error: Array
    lse_error: Array
    output: Array
    lse: Array
    bound: Bound

    @property
    def ratios(self) -> Array:
        """error / bound where the bound promises something; inf where the output is not finite."""
        kept = ~self.bound.flagged
        return _ratios(self.error[kept], self.bound.total[kept])

    @property
    def lse_ratios(self) -> Array:
        assert self.bound.lse is not None
        assert self.bound.lse_flagged is not None
        kept = ~self.bound.lse_flagged
        return _ratios(self.lse_error[kept], self.bound.lse[kept])


def _ratios(error: Array, limit: Array) -> Array:
    bad = ~np.isfinite(error)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(error == 0, 0.0, error / limit)
    return np.where(bad, np.inf, ratio)


def judge(p: Problem, kernel: ArithmeticModel, models: Models, seed: int = 0) -> Outcome:
    """A simulated kernel held to the bound of other models."""
    inputs, operation, parts = inputs_of(p, kernel.input)
    output, lse = simulate(p, kernel, seed)
    limit = bound(operation, inputs, parts, models)
    return against(parts, output, lse, limit)


def against(parts: Decomposition, output: Array, lse: Array, limit: Bound) -> Outcome:
    unsure = 2 * (parts.p_error[..., None] + 2.0**-44) * parts.magnitude
    with np.errstate(invalid="ignore"):
        error = np.maximum(np.abs(output - parts.output) - unsure, 0.0)
        lse_error = np.abs(lse - parts.lse)
    lse_error = np.where(lse == parts.lse, 0.0, lse_error - 2.0**-50 * np.abs(parts.lse))
    return Outcome(error, np.maximum(lse_error, 0.0), output, lse, limit)


def declared(model: ArithmeticModel) -> ArithmeticModel:
    """The same model with the order of its sums declared."""
    if model.row_sum_order == "pairwise":
        return replace(model, order="sequential")
    return replace(model, order="sequential", row_sum_order="sequential")


MODELS = {name: model for name, (model, _) in CONTRACTS.items()} | FIELDS


@pytest.mark.parametrize("name", MODELS)
def test_bound_is_never_exceeded_on_small_shapes(name: str) -> None:
    """Every model on every family: no output and no LSE beyond the bound of its own model."""
    model = MODELS[name]
    for family in (*FAMILIES, *OPTIONS):
        p = problem(family, SMALL, model.input)
        for models in (model, declared(model)):
            found = judge(p, model, models)
            assert found.ratios.max(initial=0.0) <= 1, (family, models.order)
            assert found.lse_ratios.max(initial=0.0) <= 1, (family, "lse")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [SMALL, MIDDLE, LARGE])
@pytest.mark.parametrize("name", MODELS)
def test_bound_is_never_exceeded(name: str, shape: tuple[int, int, int, int], seed: int) -> None:
    """The same on three shapes and three seeds (20 minutes)."""
    model = MODELS[name]
    for family in (*FAMILIES, *OPTIONS):
        p = problem(family, shape, model.input, seed)
        for models in (model, declared(model)):
            found = judge(p, model, models, seed)
            assert found.ratios.max(initial=0.0) <= 1, (family, models.order)
            assert found.lse_ratios.max(initial=0.0) <= 1, (family, "lse")
