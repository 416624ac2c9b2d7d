"""vLLM's attention under the adapter: options are passed on rightly, and the model holds."""

from __future__ import annotations

import pytest
import torch

from tests.verify.kernels.certified import refused
from tests.verify.kernels.options import misread
from verify.judge import Verdict
from verify.kernels.vllm_cpu import capped

pytest.importorskip("vllm")
pytestmark = pytest.mark.third_party
NAMES = ["vllm-cpu-paged", "vllm-cpu-paged-softcap"]


@pytest.mark.parametrize("fmt", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("name", NAMES)
def test_options_mean_what_the_definition_says(name: str, fmt: str) -> None:
    """Scale, masks, corner, kv heads and shapes reach the library as they were meant."""
    assert not misread(name, fmt)


@pytest.mark.parametrize("fmt", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("name", NAMES)
def test_declared_arithmetic_is_not_refuted(name: str, fmt: str) -> None:
    """No case of the smoke profile contradicts the model that the library's source implies."""
    verdict, refuted = refused(name, fmt)
    assert verdict is Verdict.PASS, refuted


@pytest.mark.parametrize("ratio", [89.0, -87.5])
def test_finding_softcap_is_nan_far_from_zero(ratio: float) -> None:
    """reports/findings/vllm-cpu-softcap.md: tanh of overflowing exponentials."""
    q, k = torch.zeros(1, 1, 1, 32), torch.zeros(1, 1, 2, 32)
    q[..., 0], k[:, :, 1, 0] = 1.0, 50.0 * ratio
    far = capped(q, k, torch.ones_like(k), scale=1.0, softcap=50.0)
    near = capped(q, k * 0.97, torch.ones_like(k), scale=1.0, softcap=50.0)
    assert far.isnan().all()
    assert (near == 1).all()
