"""torch beyond SDPA: flex_attention, nn.MultiheadAttention, certified as they declare."""

from __future__ import annotations

import pytest
import torch

from tests.verify.kernels.certified import refused
from verify.judge import Verdict
from verify.kernels import find

pytestmark = pytest.mark.third_party
FAMILIES = ("seed_case", "standard_normal", "causal", "boolean_masks", "empty_rows")
NAMES = ["torch-flex-attention", "torch-multihead-attention", "torch-multihead-attention-weights"]


@pytest.mark.parametrize("fmt", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("name", NAMES)
def test_certified_in_the_declared_model(name: str, fmt: str) -> None:
    assert refused(name, fmt, FAMILIES) == (Verdict.PASS, [])


def test_weights_are_stored_in_the_input_format() -> None:
    """What the model of need_weights=True rests on: scores 1024 and 1024.5 are one bf16 number."""
    q = torch.tensor([1024.0, 1.0], dtype=torch.bfloat16).reshape(1, 1, 1, 2) * 2**0.5
    k = torch.tensor([[1.0, 0.0], [1.0, 0.5]], dtype=torch.bfloat16).reshape(1, 1, 2, 2)
    v = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.bfloat16).reshape(1, 1, 2, 2)
    assert find("torch-multihead-attention-weights")[0](q, k, v).flatten()[0] == 0.5
    assert find("torch-multihead-attention")[0](q, k, v).flatten()[0] > 0.55


def test_a_row_without_keys_depends_on_need_weights() -> None:
    x = torch.ones(1, 1, 2, 2)
    mask = torch.tensor([[True, True], [False, False]])
    assert find("torch-multihead-attention-weights")[0](x, x, x, mask=mask)[0, 0, 1].isnan().all()
    assert (find("torch-multihead-attention")[0](x, x, x, mask=mask)[0, 0, 1] == 0).all()
