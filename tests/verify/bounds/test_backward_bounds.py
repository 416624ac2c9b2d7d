"""Theorem 3 against an own simulation of every model: never exceeded, and as tight as promised."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.verify.bounds.backward_simulator import exact, simulate_backward, upstream
from tests.verify.bounds.inputs import FAMILIES, OPTIONS, problem
from tests.verify.bounds.machine import Array
from tests.verify.bounds.models import EAGER, FUSED, of
from tests.verify.bounds.simulator import Problem
from tests.verify.bounds.test_attention_bounds import inputs_of
from verify.arithmetic import A100, H100, ArithmeticModel, Chain
from verify.bounds import FLAGS, GRADIENT_STAGES, Bound, bound
from verify.case import Inputs, Tensor
from verify.formats import FORMATS
from verify.operation import Operation
from verify.presets import preset

SHAPE = (24, 40, 16, 8)
KEPT: dict[str, Any] = {"backward_p": "kept", "block": None}


def _eager(fmt: str) -> ArithmeticModel:
    (model,) = preset("eager", FORMATS[fmt]).backward
    return replace(model, exp_ulps=0.5)


def _half(fmt: str) -> ArithmeticModel:
    chain = Chain(fmt)
    return of(
        fmt, qk=chain, pv=chain, row_sum=chain, scale_format=fmt, softmax_format=fmt,
        lse_format=fmt, gradients=chain, backward_p="kept", delta="probabilities", ds_format=fmt,
        **EAGER,
    )  # fmt: skip


MODELS: dict[str, ArithmeticModel] = {
    "fp32": of("fp32", block=None),
    "bf16": of("bf16"),
    "fp16": of("fp16"),
    "fp32_fused": of("fp32", **FUSED),
    "bf16_h100": of("bf16", qk=H100, pv=H100, gradients=H100, **FUSED),
    "fp16_a100": of(
        "fp16", qk=A100, pv=A100, gradients=A100, flush_to_zero=True, ds_form="products", **FUSED
    ),
    "fp32_tanh_absolute": of("fp32", tanh_absolute=2.0**-10),
    "fp32_kept": of("fp32", delta="probabilities", p_normalised=True, **KEPT),
    "bf16_kept": of("bf16", delta_format="fp32", dp_format="bf16", ds_format="fp32", **KEPT),
    "fp16_kept": of(
        "fp16", delta="probabilities", p_normalised=True, ds_form="products",
        gradient_scale="operands", **KEPT,
    ),
    "bf16_lse_of_probabilities": of("bf16", delta="probabilities"),
    "bf16_running": of("bf16", gradient_block=(8, 16)),
    "bf16_eager": _eager("bf16"),
    "fp16_eager": _eager("fp16"),
    "fp16_half": _half("fp16"),
}  # fmt: skip


def bounds_of(p: Problem, do: Array, model: Any) -> dict[str, Bound]:
    """The bound of every gradient of a problem, one head, by name."""
    name = model.input if isinstance(model, ArithmeticModel) else model.format
    inputs, operation, parts = inputs_of(p, name)
    whole = Inputs({**inputs.tensors, "do": Tensor.of(FORMATS[name], do[None, None])}, inputs.mask)
    backward = Operation("attention_backward", scale=operation.scale, softcap=operation.softcap)
    found = bound(backward, whole, parts, model)
    return {"dq": found, **found.others}


def ratios(p: Problem, do: Array, model: ArithmeticModel, seed: int = 0) -> dict[str, Array]:
    """error / bound of a simulated kernel, by gradient, where the bound promises something."""
    got, truth = simulate_backward(p, do, model, seed), exact(p, do)
    found = {}
    for name, limit in bounds_of(p, do, model).items():
        total, flagged = limit.total, limit.flagged
        if name != "dsinks":
            total, flagged = total[0, 0], flagged[0, 0]
        error = np.abs(got[name] - truth[name])
        error = np.maximum(error - 1e-13 * np.abs(truth[name]).max(initial=0.0), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(error == 0, 0.0, error / total)
        ratio = np.where(np.isfinite(got[name]), ratio, np.inf)
        found[name] = ratio[~flagged]
    return found


@pytest.mark.parametrize("name", MODELS)
def test_bound_of_gradients_is_never_exceeded(name: str) -> None:
    """Every model on every family: no gradient beyond the bound of its own model, and some
    gradient uses more than a twentieth of it, so that this check can fail."""
    model, largest = MODELS[name], 0.0
    for number, family in enumerate((*FAMILIES, *OPTIONS)):
        p = problem(family, SHAPE, model.input)
        do = upstream(p, model.input, ("normal", "ones")[number % 2], number)
        for gradient, ratio in ratios(p, do, model).items():
            assert ratio.max(initial=0.0) <= 1, (family, gradient)
            largest = max(largest, float(ratio.max(initial=0.0)))
    assert largest > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", MODELS)
def test_bound_of_gradients_is_never_exceeded_on_larger_shapes(name: str, seed: int) -> None:
    """The same on 64 x 128, d = 32, three seeds."""
    model = MODELS[name]
    for family in (*FAMILIES, *OPTIONS):
        p = problem(family, (64, 128, 32, 16), model.input, seed)
        for kind in ("normal", "ones"):
            do = upstream(p, model.input, kind, seed)
            for gradient, ratio in ratios(p, do, model, seed).items():
                assert ratio.max(initial=0.0) <= 1, (family, gradient, kind)


# Median bound / error of dq, dk, dv on normal data, n = 128 and d = 64, as measured before on an
# independent simulator.
MEASURED = {"fp32": (5510, 4880, 1240), "bf16": (118, 105, 16), "fp16": (115, 108, 17)}


@pytest.mark.parametrize("name", MEASURED)
def test_bound_of_gradients_is_as_tight_as_measured_before(name: str) -> None:
    """At most twice as loose on normal data."""
    model = MODELS[name]
    p = problem("normal", (96, 128, 64, 64), name)
    found = ratios(p, upstream(p, name, "normal"), model)
    for gradient, measured in zip(("dq", "dk", "dv"), MEASURED[name], strict=True):
        ratio = found[gradient]
        assert np.median(1 / ratio[ratio > 0]) <= 2 * measured, gradient


@pytest.mark.parametrize("fmt", ["fp16", "bf16", "fp32"])
def test_preset_holds_narrower_backward_passes(fmt: str) -> None:
    """The default of a format allows what each narrower model does: recomputed or kept P, D of the
    output or of P dP."""
    narrow = [
        of(fmt, exp_ulps=2.0),
        of(fmt, **FUSED),
        of(fmt, delta_format="fp32", exp_ulps=2.0, **KEPT),
        of(fmt, delta="probabilities", p_normalised=True, exp_ulps=2.0, **KEPT),
    ]
    wide = preset("single" if fmt == "fp32" else "flash", FORMATS[fmt])
    for family in ("normal", "sharp", "huge_offset", "softcap", "sink", "masked"):
        p = problem(family, SHAPE, fmt)
        do = upstream(p, fmt, "normal")
        limit = bounds_of(p, do, wide)
        for model in narrow:
            for name, one in bounds_of(p, do, model).items():
                assert (limit[name].total >= one.total * (1 - 2.0**-20)).all(), (family, name)


def test_parts_sum_to_the_bound_and_flags_have_a_meaning() -> None:
    """The stages of a gradient's bound add up to it; every flag that is raised is explained."""
    p = problem("normal", SHAPE, "bf16")
    for limit in bounds_of(p, upstream(p, "bf16", "normal"), MODELS["bf16"]).values():
        assert tuple(limit.parts) == GRADIENT_STAGES
        total = sum(limit.parts[stage] for stage in GRADIENT_STAGES)
        np.testing.assert_allclose(limit.total, total, rtol=2.0**-20)
        assert not limit.flagged.any()
    large = problem("large_values", SHAPE, "fp16")
    limits = bounds_of(large, np.full((24, 8), 60000.0), MODELS["fp16"])
    raised = {name for limit in limits.values() for name in limit.flag_reasons}
    assert {"G2", "G4"} <= raised <= set(FLAGS)


def test_rows_without_keys_have_no_gradient() -> None:
    """dQ of a row that sees nothing is 0, and its bound leaves only the underflow of 0."""
    p = problem("masked", SHAPE, "bf16")
    assert not p.visible[0].any()
    limit = bounds_of(p, upstream(p, "bf16", "normal"), MODELS["bf16"])["dq"]
    assert not limit.flagged[0, 0, 0].any()
    assert (limit.total[0, 0, 0] <= 2.0**-100).all()


def test_a_value_or_output_that_is_not_finite_leaves_dv_in_scope() -> None:
    """dV = P^T dO: a NaN in v, or an output beyond its format, is no excuse for it; a NaN in dO is
    one in its column, of the keys that its row sees."""
    p = problem("normal", SHAPE, "bf16")
    do = upstream(p, "bf16", "normal")
    broken = replace(p, v=np.where(np.arange(p.v.size).reshape(p.v.shape) == 9, np.nan, p.v))
    limits = bounds_of(broken, do, MODELS["bf16"])
    for name, limit in limits.items():
        assert limit.flagged.any() == (name != "dv"), name
    do[3, 2] = np.nan
    flagged = bounds_of(p, do, MODELS["bf16"])["dv"].flagged[0, 0]
    assert flagged[p.visible[3]][:, 2].all()
    assert not np.delete(flagged, 2, axis=1).any()
