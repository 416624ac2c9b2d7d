"""JAX: certified as it declares, refuted where it is written."""

from __future__ import annotations

import pytest
import torch

from tests.verify.kernels.certified import refused
from verify.judge import Verdict
from verify.kernels import find

pytestmark = pytest.mark.third_party


@pytest.mark.parametrize("fmt", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("name", ["jax-softmax", "jax-log-softmax", "jax-logsumexp"])
def test_softmaxes_are_certified_in_the_format_of_their_input(name: str, fmt: str) -> None:
    assert refused(name, fmt, ("seed_case", "exp_ladder")) == (Verdict.PASS, [])


@pytest.mark.parametrize("fmt", ["fp16", "bf16", "fp32"])
def test_attention_is_certified(fmt: str) -> None:
    families = ("seed_case", "standard_normal", "causal", "windows")
    assert refused("jax-dot-product-attention", fmt, families) == (Verdict.PASS, [])


def test_log_sum_exp_has_the_precision_of_its_input() -> None:
    """What `lse_format` rests on: 2048 + ln 2 is between two numbers of binary16, 2 apart."""
    pytest.importorskip("jax")
    q = torch.ones(1, 1, 1, 1, dtype=torch.float16)
    k = torch.full((1, 1, 2, 1), 2048.0, dtype=torch.float16)
    _, lse = find("jax-dot-product-attention")[0](q, k, k, scale=1.0, return_lse=True)
    assert lse.item() == 2048.0
