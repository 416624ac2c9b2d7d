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


@pytest.mark.parametrize("fmt", ["bf16", "fp32"])
def test_pallas_kernels_are_certified_in_the_interpreter(fmt: str) -> None:
    families = ("standard_normal", "seed_case", "equal_scores")
    assert refused("jax-pallas-mha", fmt, families) == (Verdict.PASS, [])
    assert refused("jax-pallas-softmax", fmt, families) == (Verdict.PASS, [])


def test_pallas_mha_reads_past_the_last_key_where_causal_has_more_queries() -> None:
    """The finding: reports/findings/jax-pallas-mha.md (the interpreter fills with NaN)."""
    pytest.importorskip("jax")
    q, k = torch.ones(1, 1, 32, 16), torch.ones(1, 1, 16, 16)
    got = find("jax-pallas-mha")[0](q, k, k, scale=0.25, causal=True)
    assert got[0, 0, :16].isfinite().all()
    assert got[0, 0, 16:].isnan().all()


@pytest.mark.parametrize("n_k", [7, 256])
def test_tpu_flash_means_what_the_definition_says(n_k: int) -> None:
    """Both kernels, one step (7 keys) and tiles of 128; certifying them takes an hour."""
    pytest.importorskip("jax")
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, n, 16, generator=draw) for n in (5, n_k, n_k))
    got = find("jax-pallas-tpu-flash")[0](q, k, v, scale=0.25, causal=True)
    want = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, scale=0.25, is_causal=True
    )  # top-left too
    assert (got - want).abs().max() <= 64 * 2**-24 * v.abs().max()


def test_a_key_that_tpu_flash_removes_wins_with_a_high_score() -> None:
    """The finding: reports/findings/jax-pallas-tpu-flash.md."""
    pytest.importorskip("jax")
    q, k = torch.ones(1, 1, 2, 1), torch.tensor([-2e38, 2e38]).reshape(1, 1, 2, 1)
    v = torch.tensor([1.0, 2.0]).reshape(1, 1, 2, 1)
    got = find("jax-pallas-tpu-flash")[0](q, k, v, scale=1.0, causal=True)
    assert got[0, 0, 0].item() == 2.0


def test_attention_under_jit_refuses_binary16_on_a_cpu() -> None:
    """The finding: reports/findings/jax-dot-product-attention.md; eager calls fall back."""
    jax = pytest.importorskip("jax")
    x = jax.numpy.ones((1, 4, 1, 8), "float16")
    assert jax.nn.dot_product_attention(x, x, x).shape == x.shape
    with pytest.raises(Exception, match="F16_F16_F32"):
        jax.jit(jax.nn.dot_product_attention)(x, x, x)


@pytest.mark.parametrize("fmt", ["fp16", "bf16", "fp32"])
def test_gradients_of_attention_are_certified(fmt: str) -> None:
    families = ("seed_case", "standard_normal", "causal", "gradient_reductions", "additive_bias")
    assert refused("jax-dot-product-attention-backward", fmt, families) == (Verdict.PASS, [])


@pytest.mark.parametrize("fmt", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("name", ["jax-softmax-backward", "jax-log-softmax-backward"])
def test_gradients_of_softmaxes_are_certified_on_short_rows(name: str, fmt: str) -> None:
    assert refused(name, fmt, ("seed_case", "exp_ladder")) == (Verdict.PASS, [])


def test_gradient_of_softmax_in_binary16_loses_the_sum_of_a_flat_row() -> None:
    """The finding: reports/findings/jax-softmax-gradient.md.  bf16 holds the square of 256."""
    verdict, beyond = refused("jax-softmax-backward", "fp16", ("flat_rows_gradient",))
    assert verdict is Verdict.FAIL
    assert beyond
    for fmt in ("bf16", "fp32"):
        assert refused("jax-softmax-backward", fmt, ("flat_rows_gradient",))[0] is Verdict.PASS
    x, dy = torch.zeros(1, 256, dtype=torch.float16), torch.ones(1, 256, dtype=torch.float16)
    dx = find("jax-softmax-backward")[0](x, dy)
    assert (dx == 1 / 256).all()  # y dy; the exact gradient is 0
