"""Paddle's attention and softmax under the adapters: refuted as it is written, else as declared."""

from __future__ import annotations

import math

import pytest
import torch

from tests.verify.kernels.certified import refused
from tests.verify.kernels.options import misread
from verify.judge import Verdict
from verify.kernels import find

pytest.importorskip("paddle", exc_type=ImportError)
pytestmark = pytest.mark.third_party
FAMILIES = ("seed_case", "standard_normal", "big_scores", "boolean_masks")


def test_options_mean_what_the_definition_says() -> None:
    """Scale, masks, corner, kv heads and shapes reach the library as they were meant."""
    assert not misread("paddle-sdpa", "fp32")


@pytest.mark.parametrize(
    "name", ["paddle-sdpa", "paddle-softmax", "paddle-log-softmax", "paddle-logsumexp"]
)
def test_declared_arithmetic_is_not_refuted_near_the_maximum(name: str) -> None:
    """Where no score lies 64 below the largest the library does what its documentation says."""
    verdict, refuted = refused(name, "fp32", FAMILIES)
    assert verdict is Verdict.PASS, refuted


def test_no_score_is_further_than_64_below_the_largest() -> None:
    """The finding: reports/findings/paddle-softmax.md."""
    x = torch.tensor([[0.0, -200.0]])
    assert find("paddle-log-softmax")[0](x).tolist() == [[0.0, -64.0]]
    assert find("paddle-softmax")[0](x)[0, 1].item() == pytest.approx(math.exp(-64), rel=1e-5)
    assert torch.log_softmax(x, -1).tolist() == [[0.0, -200.0]]


@pytest.mark.parametrize(("n", "hidden"), [(7, False), (8, True), (48, True)])
def test_softmax_hides_a_nan_where_the_length_is_a_multiple_of_8(n: int, hidden: bool) -> None:
    """The finding: reports/findings/paddle-softmax.md."""
    x = torch.zeros(1, n)
    x[0, 0] = math.nan
    got = find("paddle-softmax")[0](x)
    assert got.isfinite().all() if hidden else got.isnan().all()


def test_a_causal_key_with_a_high_score_wins() -> None:
    """The finding: `is_causal` adds -1e4 (reports/findings/paddle-sdpa.md)."""
    q = torch.ones(1, 1, 1, 1)
    k = torch.tensor([-1e5, 1e5]).reshape(1, 1, 2, 1)
    v = torch.tensor([1.0, 2.0]).reshape(1, 1, 2, 1)
    assert find("paddle-sdpa")[0](q, k, v, scale=1.0, causal=True).item() == 2.0


def test_a_masked_key_keeps_some_weight() -> None:
    """The finding: exp(-64) of a value of 3e38 (reports/findings/paddle-sdpa.md)."""
    q, k = torch.ones(1, 1, 1, 1), torch.ones(1, 1, 2, 1)
    v = torch.tensor([1.0, 3e38]).reshape(1, 1, 2, 1)
    mask = torch.tensor([[True, False]])
    assert find("paddle-sdpa")[0](q, k, v, scale=1.0, mask=mask).item() > 1e10


def test_logsumexp_of_nothing_is_nan() -> None:
    """The finding: reports/findings/paddle-softmax.md."""
    assert find("paddle-logsumexp")[0](torch.full((1, 2), float("-inf"))).isnan().all()
