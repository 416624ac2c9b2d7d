"""What a preset stands for: every narrower kernel is inside, and broken ones are not."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.verify.bounds.inputs import FAMILIES, OPTIONS, problem
from tests.verify.bounds.models import of
from tests.verify.bounds.test_attention_bounds import SMALL, inputs_of, judge
from verify.arithmetic import A100_TF32, ArithmeticModel
from verify.bounds import bound
from verify.formats import FORMATS
from verify.presets import preset

POSITIONS: tuple[dict[str, Any], ...] = (
    {"scale_position": "scores"},
    {"scale_position": "exponent", "exponential": "fma"},
    {"scale_position": "scores", "exponential": "fma"},
    {"scale_position": "query", "scaled_operands": "fp32"},
    {"scale_position": "both", "scaled_operands": "fp32"},
)
FORMS: tuple[dict[str, Any], ...] = (
    {"p_normalised": False, "row_sum_of": "unrounded"},
    {"p_normalised": False, "row_sum_of": "rounded"},
    {"p_normalised": True, "row_sum_of": "unrounded"},
)
TILINGS: tuple[dict[str, Any], ...] = (
    {"block": None},
    {"block": 16},
    {"block": 16, "lazy": 8.0},
    {"block": 32, "splits": 3},
    {"block": 16, "splits": 32, "lazy": 8.0},
)


def narrower(fmt: str, p_format: str) -> list[ArithmeticModel]:
    """Single kernels that an undeclared one may be."""
    found = []
    for position, form, tiling in product(POSITIONS, FORMS, TILINGS):
        if form["p_normalised"] and tiling.get("splits", 1) > 1:
            continue
        found.append(of(fmt, p_format=p_format, exp_ulps=2.0, **position, **form, **tiling))
    return found


PRESETS = [("flash", "bf16", "bf16"), ("flash", "fp16", "fp16"), ("single", "fp32", "fp32"),
           ("single", "bf16", "fp32")]  # fmt: skip


@pytest.mark.parametrize(("name", "fmt", "p_format"), PRESETS)
@pytest.mark.parametrize("family", [*FAMILIES, *OPTIONS])
def test_preset_contains_every_narrower_model(
    name: str, fmt: str, p_format: str, family: str
) -> None:
    """The preset's bound is at least that of each single kernel, for outputs and LSE."""
    p = problem(family, SMALL, fmt)
    inputs, operation, parts = inputs_of(p, fmt)
    wide = bound(operation, inputs, parts, preset(name, FORMATS[fmt]))
    assert wide.lse is not None
    models = narrower(fmt, p_format)
    for model in models[len(family) % 3 :: 3]:
        one = bound(operation, inputs, parts, model)
        assert one.lse is not None
        assert (one.flagged <= wide.flagged).all(), model
        assert (one.total <= wide.total * (1 + 1e-12)).all(), model
        assert (one.lse <= wide.lse * (1 + 1e-12)).all(), model


@pytest.mark.slow
@pytest.mark.parametrize(("name", "fmt", "p_format"), PRESETS)
@pytest.mark.parametrize("family", [*FAMILIES, *OPTIONS])
def test_preset_contains_all_narrower_models(
    name: str, fmt: str, p_format: str, family: str
) -> None:
    """The same without sampling, on a longer shape."""
    inputs, operation, parts = inputs_of(problem(family, (3, 130, 48, 8), fmt), fmt)
    wide = bound(operation, inputs, parts, preset(name, FORMATS[fmt]))
    for model in narrower(fmt, p_format):
        one = bound(operation, inputs, parts, model)
        assert (one.total <= wide.total * (1 + 1e-12)).all(), model


@pytest.mark.parametrize(("name", "fmt", "p_format"), PRESETS)
def test_preset_refutes_no_conforming_kernel(name: str, fmt: str, p_format: str) -> None:
    """Simulated kernels of every kind stay within the preset's bound."""
    models = narrower(fmt, p_format)
    for i, family in enumerate((*FAMILIES, *OPTIONS)):
        p = problem(family, SMALL, fmt)
        for model in models[i % 10 :: 10]:
            found = judge(p, model, preset(name, FORMATS[fmt]))
            assert found.ratios.max(initial=0.0) <= 1, (family, model)
            assert found.lse_ratios.max(initial=0.0) <= 1, (family, model)


@pytest.mark.parametrize("family", [*FAMILIES, *OPTIONS])
def test_tf32_preset_contains_its_kernels(family: str) -> None:
    """Operands cut or rounded to TF32, on tensor cores."""
    p = problem(family, SMALL, "fp32")
    for mode in ("RZ", "RN"):
        model = of("fp32", convert=("tf32", mode), qk=A100_TF32, pv=A100_TF32, exp_ulps=2.0)
        assert judge(p, model, preset("tf32", FORMATS["fp32"])).ratios.max(initial=0.0) <= 1


def _largest(kernel: ArithmeticModel, name: str, families: tuple[str, ...]) -> float:
    fmt = FORMATS[kernel.input]
    found = (
        judge(problem(f, (3, 128, 64, 8), fmt.name), kernel, preset(name, fmt)) for f in families
    )
    return float(max(np.max(outcome.ratios, initial=0.0) for outcome in found))


BROKEN = {
    "scores stored in the input format": of("fp16", stored_scores="fp16"),
    "low-precision row sum": of("fp16", row_sum=replace(of("fp16").row_sum, format="fp16")),
    "unshifted": of("fp16", shift=False),
    "P in FP8": of("fp16", p_format="e4m3", p_offset=8),
    "exp to 8 bits": of("fp16", exp_relative=2.0**-8),
}


@pytest.mark.parametrize("name", BROKEN)
def test_preset_flash_refutes_broken_kernels(name: str) -> None:
    """The check is seen to fail: each of these departs from `flash` in one way."""
    families = ("sum_stagnates", "huge_offset", "large_scores", "normal", "one_sign", "sharp")
    assert _largest(BROKEN[name], "flash", families) > 1
