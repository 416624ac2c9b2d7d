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
    """What `convert` stands for: 64 x^2, x = 1 + 2^-7, is rounded to 65, so that the first score is
    64.25, a tie that goes to 64, and equals the second; 65.0039 would have made it 64.5."""
    x = 8 + 2.0**-4
    q = torch.tensor([x, 8.0, 0, 0]).bfloat16().reshape(1, 1, 1, 4)
    k = torch.tensor([[x, 7.9375, 0, 0], [0, 16.0, 0, 0]]).bfloat16().reshape(1, 1, 2, 4)
    v = torch.tensor([[0.0], [1.0]]).bfloat16().reshape(1, 1, 2, 1)
    assert find("tinygrad-sdpa")[0](q, k, v).item() == 0.5
    assert find("tinygrad-sdpa")[0](q.half(), k.half(), v.half()).item() < 0.45
