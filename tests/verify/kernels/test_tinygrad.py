"""tinygrad's attention and softmax under the adapters, where clang is there to compile them."""

from __future__ import annotations

import pytest
import torch

from tests.verify.kernels.certified import refused
from tests.verify.kernels.options import misread
from verify.judge import Verdict
from verify.kernels import find
from verify.kernels._tinygrad import missing

FORMATS = ["fp16", "bf16", "fp32"]
pytestmark = [
    pytest.mark.third_party,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]


@pytest.mark.parametrize("fmt", FORMATS)
def test_options_mean_what_the_definition_says(fmt: str) -> None:
    """Masks, corner, kv heads and shapes reach the library as they were meant."""
    assert not misread("tinygrad-sdpa", fmt)


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("name", ["tinygrad-sdpa", "tinygrad-softmax"])
def test_declared_arithmetic_is_not_refuted(name: str, fmt: str) -> None:
    """No case of these families contradicts the model that the library's source implies."""
    few = ("seed_case", "standard_normal", "big_scores", "causal")
    verdict, refuted = refused(name, fmt, few)
    assert verdict is Verdict.PASS, refuted


def test_products_of_bfloat16_are_rounded_to_it() -> None:
    """What `convert` stands for: scores 1.0078125^2 = 1.01568... of 256 terms become 1.015625."""
    x = torch.full((1, 1, 1, 256), 1 + 2.0**-7, dtype=torch.bfloat16)
    k = torch.cat([x, torch.zeros_like(x)], dim=2)
    v = torch.tensor([[0.0], [1.0]], dtype=torch.bfloat16).reshape(1, 1, 2, 1)
    got = find("tinygrad-sdpa")[0](x, k, v).item()
    score = torch.tensor(256 * 1.015625 / 16).bfloat16().double()
    assert got == torch.sigmoid(-score).bfloat16().item()
