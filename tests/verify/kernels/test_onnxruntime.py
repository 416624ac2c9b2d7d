"""onnxruntime and the ONNX reference: certified as they declare, refuted where it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.verify.kernels.certified import refused
from verify.judge import Verdict
from verify.kernels import find

pytestmark = pytest.mark.third_party


def kernel(name: str) -> Callable[..., np.ndarray]:
    pytest.importorskip("onnxruntime")
    return find(name)[0]


@pytest.mark.parametrize("fmt", ["fp16", "fp32"])
@pytest.mark.parametrize(
    "name",
    [
        "onnx-reference-attention",
        "onnx-reference-softmax",
        "onnxruntime-group-query-attention",
        "onnxruntime-softmax",
        "onnxruntime-log-softmax",
        "onnxruntime-attention",
        "onnxruntime-attention-23",
    ],
)
def test_smoke_profile_certifies_in_the_declared_model(name: str, fmt: str) -> None:
    assert refused(name, fmt) == (Verdict.PASS, [])


def test_attention_keeps_its_scores_in_binary16() -> None:
    """What the fp16 model rests on: two keys whose scores, 2048 and 2049, round to one number."""
    q = np.ones((1, 1, 1, 2), np.float16)
    k = np.array([[2048, 0], [2048, 1]], np.float16).reshape(1, 1, 2, 2)
    v = np.array([[0.0], [1.0]], np.float16).reshape(1, 1, 2, 1)
    got = kernel("onnxruntime-attention")(q, k, v, scale=1.0)
    assert got.item() == 0.5
    wide = [x.astype(np.float32) for x in (q, k, v)]
    assert kernel("onnxruntime-attention")(*wide, scale=1.0).item() > 0.7


@pytest.mark.parametrize("name", ["onnxruntime-attention", "onnxruntime-attention-23"])
def test_a_removed_key_with_a_high_score_wins_in_binary16(name: str) -> None:
    """The finding: the mask adds -65504, not -inf (reports/findings/onnxruntime-attention.md)."""
    q = np.ones((1, 1, 1, 1), np.float16)
    k = np.array([-6e4, 6e4], np.float16).reshape(1, 1, 2, 1)
    v = np.array([1, 2], np.float16).reshape(1, 1, 2, 1)
    mask = np.array([[True, False]])
    assert kernel(name)(q, k, v, scale=1.0, mask=mask).item() == 2.0
    assert kernel(name)(q, k[:, :, :1], v[:, :, :1], scale=1.0).item() == 1.0


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_last_query_of_unidirectional_attention_sees_every_key(dtype: type) -> None:
    """The finding: reports/findings/onnxruntime-multi-head-attention.md."""
    q: Any = np.ones((1, 1, 2, 1), dtype)
    v: Any = np.array([0, 3, 3], dtype).reshape(1, 1, 3, 1)
    got = kernel("onnxruntime-multi-head-attention")(q, np.ones_like(v), v, causal=True)
    assert got.ravel() == pytest.approx([0, 2], abs=1e-3)  # bottom-right would be 1.5, 2
    unseen = kernel("onnxruntime-attention")(q, np.ones_like(v), v, causal=True)
    assert unseen.ravel() == pytest.approx([0, 1.5], abs=1e-3)  # top-left


def test_log_softmax_of_the_reference_is_the_logarithm_of_softmax() -> None:
    """The finding: reports/findings/onnx-reference-log-softmax.md."""
    x = torch.tensor([[0.0, -200.0]])
    assert find("onnx-reference-log-softmax")[0](x).tolist() == [[0.0, float("-inf")]]
    assert torch.log_softmax(x, -1).tolist() == [[0.0, -200.0]]


def test_bfloat16_sums_of_the_reference_stop_at_256() -> None:
    """What its model rests on: 600 equal entries get 1/256 each."""
    x = torch.zeros(1, 600, dtype=torch.bfloat16)
    assert (find("onnx-reference-softmax")[0](x) == 1 / 256).all()
