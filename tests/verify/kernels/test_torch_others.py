"""torch beyond SDPA: flex_attention, nn.MultiheadAttention, certified as they declare."""

from __future__ import annotations

import pytest
import torch

from tests.verify.kernels.certified import refused
from verify.judge import Verdict
from verify.kernels import find

pytestmark = pytest.mark.third_party
FAMILIES = (
    *("seed_case", "standard_normal", "causal", "boolean_masks", "empty_rows"),
    "drawn_shapes",
)
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


def test_a_row_without_keys_in_one_head_leaves_the_other_heads_alone() -> None:
    """The output projection would multiply its NaN by 0 and add it to them."""
    x = torch.ones(1, 2, 2, 2)
    mask = torch.ones(1, 2, 2, 2, dtype=torch.bool)
    mask[0, 0, 1] = False
    out = find("torch-multihead-attention-weights")[0](x, x, x, mask=mask)
    assert out[0, 0, 1].isnan().all()
    assert (out[0, 1] == 1).all()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Inductor imports what torch deprecates
@pytest.mark.parametrize("name", ["torch-flex-attention-compiled", "torch-compiled-attention"])
def test_compiled_kernels_mean_the_same_as_eager_flex_attention(name: str) -> None:
    """Certifying them takes most of an hour (seconds to compile each case); this is a smoke check.

    Square, since one has its causal corner top-left and the other bottom-right.
    """
    compiled, found = find(name)
    if found.unavailable is not None and (reason := found.unavailable()):
        pytest.skip(reason)
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, 19, 16, generator=draw) for _ in "qkv")
    eager = find("torch-flex-attention")[0]
    for options in ({"causal": True}, {"mask": torch.arange(19) >= 7}, {"softcap": 2.0}):
        got = compiled(q, k, v, scale=0.25, **options)
        want = eager(q, k, v, scale=0.25, **options)
        assert (got - want).abs().max() <= 64 * 2**-24 * v.abs().max(), options
