"""flash-attention-jax under the adapter: refuted as it is written, else as declared."""

from __future__ import annotations

import pytest
import torch

from tests.verify.kernels.certified import refused
from tests.verify.kernels.options import misread
from verify.judge import Verdict
from verify.kernels import find

pytest.importorskip("flash_attention_jax")
pytestmark = pytest.mark.third_party
NAME = "flash-attention-jax"


def test_options_mean_what_the_definition_says() -> None:
    """Corner, default scale and shapes reach the library as they were meant."""
    assert not misread(NAME, "fp32")


def test_declared_arithmetic_is_not_refuted() -> None:
    """No case of these families contradicts the model that the library's source implies."""
    verdict, refuted = refused(NAME, "fp32", ("seed_case", "standard_normal", "causal"))
    assert verdict is Verdict.PASS, refuted


def test_keys_beyond_a_multiple_of_1024_are_counted_with_others_again() -> None:
    """The finding: reports/findings/flash-attention-jax.md."""
    q, k = torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1536, 1)
    v = (torch.arange(1536) < 512).float().reshape(1, 1, 1536, 1)
    assert find(NAME)[0](q, k, v).item() == pytest.approx(0.25)
    assert find(NAME)[0](q, k[:, :, :1024], v[:, :, :1024]).item() == pytest.approx(0.5)


def test_the_maximum_starts_at_minus_a_million() -> None:
    """The finding: reports/findings/flash-attention-jax.md."""
    q, k, v = torch.ones(1, 1, 1, 1), torch.full((1, 1, 2, 1), -2e6), torch.ones(1, 1, 2, 1)
    assert find(NAME)[0](q, k, v).item() == 0.0
    assert find(NAME)[0](q, k, v, causal=True).isnan().all()
