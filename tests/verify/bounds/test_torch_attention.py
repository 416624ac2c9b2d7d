"""PyTorch's attention on the CPU: which model holds for which path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.verify.bounds.inputs import FAMILIES, problem
from tests.verify.bounds.simulator import Problem
from tests.verify.bounds.test_attention_bounds import against, inputs_of
from verify.bounds import Models, bound
from verify.formats import FORMATS
from verify.presets import preset

torch = pytest.importorskip("torch")
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
# What 16-bit products do with subnormal operands depends on the processor.
NORMAL = tuple(name for name in FAMILIES if name != "subnormal_inputs")
Call = Callable[[Any, Any, Any, float], Any]


def sdpa(backend: str) -> Call:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def attend(q: Any, k: Any, v: Any, scale: float) -> Any:
        with sdpa_kernel(getattr(SDPBackend, backend)):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=scale)

    return attend


def eager(q: Any, k: Any, v: Any, scale: float) -> Any:
    """As in many model files: 16-bit scores, a binary32 softmax, 16-bit P."""
    scores = q @ k.transpose(-1, -2) * scale
    return torch.softmax(scores.float(), -1).to(q.dtype) @ v


def worst_ratio(call: Call, p: Problem, fmt: str, models: Models) -> float:
    q, k, v = (torch.tensor(x[None, None]).to(DTYPES[fmt]) for x in (p.q, p.k, p.v))
    output = call(q, k, v, p.scale).double().numpy()
    inputs, operation, parts = inputs_of(p, fmt)
    found = against(parts, output, parts.lse, bound(operation, inputs, parts, models))
    return float(np.max(found.ratios, initial=0.0))


@pytest.mark.parametrize(
    ("path", "name"), [("MATH", "single"), ("FLASH_ATTENTION", "flash"), ("eager", "eager")]
)
@pytest.mark.parametrize("fmt", ["fp32", "fp16", "bf16"])
def test_path_is_inside_its_model(path: str, name: str, fmt: str) -> None:
    """math: binary32 throughout, in 16 bits too; flash: P rounded; eager: stored scores."""
    call = eager if path == "eager" else sdpa(path)
    models = preset(name, FORMATS[fmt])
    for family in NORMAL:
        for shape in ((5, 64, 32, 32), (20, 150, 80, 80)):
            assert worst_ratio(call, problem(family, shape, fmt), fmt, models) <= 1, family


@pytest.mark.parametrize("fmt", ["fp16", "bf16"])
def test_eager_is_not_flash(fmt: str) -> None:
    """16-bit scores contradict `flash` at large scores."""
    p = problem("large_scores", (20, 150, 80, 80), fmt)
    assert worst_ratio(eager, p, fmt, preset("flash", FORMATS[fmt])) > 1


def test_bf16_products_with_subnormals_are_inside_once_flushing_is_declared() -> None:
    """Matrix units that read subnormal operands as zero need flush_to_zero."""
    (model,) = preset("eager", FORMATS["bf16"]).variants
    for shape in ((5, 64, 32, 32), (20, 150, 80, 80)):
        p = problem("subnormal_inputs", shape, "bf16")
        assert worst_ratio(eager, p, "bf16", replace(model, flush_to_zero=True)) <= 1
