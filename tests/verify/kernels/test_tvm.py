"""TVM's attention and softmax under the adapters: refuted as it is written, else as declared."""

from __future__ import annotations

import pytest
import torch

from tests.verify.kernels.certified import refused
from tests.verify.kernels.options import misread
from verify.judge import Verdict
from verify.kernels import find

pytest.importorskip("tvm")
pytestmark = pytest.mark.third_party
FORMATS = ["fp16", "fp32"]
FAMILIES = ("seed_case", "standard_normal", "exact_scores", "big_scores", "boolean_masks")


@pytest.mark.parametrize("fmt", FORMATS)
def test_options_mean_what_the_definition_says(fmt: str) -> None:
    """Scale, masks, corner and shapes reach the library as they were meant."""
    assert not misread("tvm-attention", fmt)


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("name", ["tvm-attention", "tvm-softmax", "tvm-log-softmax"])
def test_declared_arithmetic_is_not_refuted(name: str, fmt: str) -> None:
    """No case of these families contradicts the model that the library's source implies."""
    verdict, refuted = refused(name, fmt, FAMILIES)
    assert verdict is Verdict.PASS, refuted


def test_removed_keys_raise_the_maximum_to_zero() -> None:
    """The finding: the first query sees one key, so its output is v (reports/findings)."""
    q, k = torch.ones(1, 1, 2, 1), torch.full((1, 1, 2, 1), -200.0)
    v = torch.ones(1, 1, 2, 1)
    got = find("tvm-attention")[0](q, k, v, scale=1.0, causal=True).ravel()
    assert got[0].isnan()
    assert got[1] == 1.0  # every key is visible


def test_scores_of_binary16_are_accumulated_in_binary16() -> None:
    """What the fp16 model rests on: 2048 + 1 + 1 stays 2048, so that both keys weigh the same."""
    q = torch.ones(1, 1, 1, 3).half()
    k = torch.tensor([[2048.0, 1, 1], [2048, 0, 0]]).half().reshape(1, 1, 2, 3)
    v = torch.tensor([[0.0], [1.0]]).half().reshape(1, 1, 2, 1)
    assert find("tvm-attention")[0](q, k, v, scale=1.0).item() == 0.5
