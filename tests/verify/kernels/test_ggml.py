"""ggml's flash attention under the adapter: options are passed on rightly, and the model holds."""

from __future__ import annotations

import pytest
import torch

from tests.verify.kernels.certified import refused
from tests.verify.kernels.options import misread
from verify.judge import Verdict
from verify.kernels import find

# imported nowhere: the adapter loads the C libraries beside it
pytestmark = [
    pytest.mark.third_party,
    pytest.mark.skipif(
        find("ggml-flash-attn")[1].unavailable() is not None,  # type: ignore[misc]
        reason="llama-cpp-python is not installed",
    ),
]
FORMATS = ["fp16", "bf16", "fp32"]


@pytest.mark.parametrize("fmt", FORMATS)
def test_options_mean_what_the_definition_says(fmt: str) -> None:
    """Scale, masks, softcap, sinks, kv heads and shapes reach the library as they were meant."""
    assert not misread("ggml-flash-attn", fmt)


@pytest.mark.parametrize("fmt", FORMATS)
def test_declared_arithmetic_is_not_refuted(fmt: str) -> None:
    """No case of these families contradicts the model that the library's source implies."""
    verdict, refuted = refused("ggml-flash-attn", fmt)
    assert verdict is Verdict.PASS, refuted


@pytest.mark.parametrize(("n_q", "answer"), [(1, 2048.0), (64, 2052.0)])
def test_few_queries_of_binary16_have_a_binary16_accumulator(n_q: int, answer: float) -> None:
    """What the model rests on: one key at a time 2048 + 1 + 1 + 1 stays 2048; in a tile it is 2051,
    a quarter of which rounds to 513."""
    q, k = torch.zeros(1, 1, n_q, 8).half(), torch.zeros(1, 1, 4, 8).half()
    v = torch.tensor([2048.0, 1, 1, 1]).half().reshape(1, 1, 4, 1).expand(1, 1, 4, 8)
    got = find("ggml-flash-attn")[0](q, k, v, scale=1.0)
    assert (4 * got == answer).all()
