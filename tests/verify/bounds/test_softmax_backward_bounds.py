"""Theorem 4 against torch's own gradients of softmax and log-softmax."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from references.decompose import decompose_softmax
from tests.verify.bounds.models import of
from verify import families
from verify.arithmetic import ArithmeticModel
from verify.bounds import Models, bound
from verify.bounds.statement import Array
from verify.case import Case, Inputs, Plan, Tensor
from verify.formats import FORMATS
from verify.kernels import find
from verify.operation import BACKWARD, Operation, OperationName
from verify.presets import default_preset

torch.set_num_threads(1)
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
FAMILIES = ("standard_normal", "score_ladder", "huge_offset", "seed_case", "equal_scores")
FORWARD: tuple[OperationName, ...] = ("softmax", "log_softmax")


def exact(name: str, x: Array, dy: Array) -> Array:
    """dx in extended precision."""
    wide, up = x.astype(np.longdouble), dy.astype(np.longdouble)
    e = np.exp(wide - wide.max(axis=1, keepdims=True))
    y = e / e.sum(axis=1, keepdims=True)
    if name == "softmax":
        found = y * (up - (y * up).sum(axis=1, keepdims=True))
    else:
        found = up - y * up.sum(axis=1, keepdims=True)
    return np.asarray(found, np.float64)


def by_torch(name: str, inputs: Inputs, fmt: str) -> Array:
    x = torch.from_numpy(inputs["x"].values).to(DTYPES[fmt]).requires_grad_()
    dy = torch.from_numpy(inputs["dy"].values).to(DTYPES[fmt])
    (dx,) = torch.autograd.grad(getattr(torch, name)(x, dim=-1), x, dy)
    return np.asarray(dx.double().numpy())


def cases(name: OperationName, fmt: str) -> list[Case]:
    plan = Plan(BACKWARD[name], FORMATS[fmt])
    return [case for family in FAMILIES for case in families.family(family).cases(plan)]


def models_of(name: str, fmt: str) -> tuple[Models, Models]:
    """What torch's kernel declares, and the default of the format."""
    declared: Any = find(f"torch-{name.replace('_', '-')}")[1].declaration.model
    return ArithmeticModel.from_json(dict(declared[fmt])), default_preset(FORMATS[fmt])


@pytest.mark.parametrize("fmt", DTYPES)
@pytest.mark.parametrize("name", FORWARD)
def test_torch_gradients_stay_within_their_bounds(name: OperationName, fmt: str) -> None:
    """None beyond the declared model's bound or the default's (which torch's 16-bit log-softmax
    leaves in the forward pass already), and the declared one is used to more than a twentieth
    somewhere, so that this check can fail."""
    largest = 0.0
    for case in cases(name, fmt):
        inputs = case.build()
        x, dy = inputs["x"].values, inputs["dy"].values
        error = np.abs(by_torch(name, inputs, fmt) - exact(name, x, dy))
        declared, default = models_of(name, fmt)
        tried = (declared,) if name == "log_softmax" and fmt != "fp32" else (declared, default)
        for number, models in enumerate(tried):
            limit = bound(case.operation, inputs, decompose_softmax(x), models)
            kept = ~limit.flagged
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(error == 0, 0.0, error / limit.total)[kept]
            assert ratio.max(initial=0.0) <= 1, (case.id, number)
            if number == 0:
                largest = max(largest, float(ratio.max(initial=0.0)))
    assert largest > 0.05


@pytest.mark.parametrize("fmt", DTYPES)
def test_gradient_without_the_sum_is_beyond_the_bound(fmt: str) -> None:
    """y dy alone is refuted on ordinary data."""
    case = cases("softmax", fmt)[0]
    inputs = case.build()
    x, dy = inputs["x"].values, inputs["dy"].values
    e = np.exp(x - x.max(axis=1, keepdims=True))
    wrong = e / e.sum(axis=1, keepdims=True) * dy
    limit = bound(case.operation, inputs, decompose_softmax(x), default_preset(FORMATS[fmt]))
    assert (np.abs(wrong - exact("softmax", x, dy)) > 2 * limit.total).any()


@pytest.mark.parametrize("name", FORWARD)
def test_sum_that_may_overflow_is_flagged_in_the_format_that_it_is_added_in(
    name: OperationName,
) -> None:
    """binary16 throughout: 4096 entries of 32 exceed 65504; the same in binary32 do not."""
    x, dy = np.zeros((1, 4096)), np.full((1, 4096), 32.0)
    inputs = Inputs({n: Tensor.of(FORMATS["fp16"], a) for n, a in {"x": x, "dy": dy}.items()})
    operation, parts = Operation(BACKWARD[name]), decompose_softmax(x)
    half = of("fp16", softmax_format="fp16", p_format="fp16", p_normalised=True, block=None)
    flagged = bound(operation, inputs, parts, half).flagged
    assert flagged.all() == (name == "log_softmax")  # P dy adds up to 32 only
    assert not bound(operation, inputs, parts, replace(half, softmax_format="fp32")).flagged.any()


@pytest.mark.parametrize("name", FORWARD)
def test_e_and_l_apart_lose_more_below_the_range(name: OperationName) -> None:
    """What underflows in a quotient by l is multiplied by e, and not by p: at the lower end of the
    range the bound of kept quotients is too small by the row sum."""
    x, dy = np.zeros((1, 64)), np.full((1, 64), 2.0**-126)
    dy[0, ::2] *= 1.5
    inputs = Inputs({n: Tensor.of(FORMATS["fp32"], a) for n, a in {"x": x, "dy": dy}.items()})
    operation, parts = Operation(BACKWARD[name]), decompose_softmax(x)
    kept = of("fp32", p_format="fp32", backward_p="kept", block=None, flush_to_zero=True)
    apart = replace(kept, backward_p="apart")
    one, two = (bound(operation, inputs, parts, m).total for m in (kept, apart))
    assert (two >= one).all()
    assert (two > one + 64 * 2.0**-126).all()
