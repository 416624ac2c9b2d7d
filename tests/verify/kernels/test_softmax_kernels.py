"""Every shipped softmax kernel agrees with the definition, and its model with what it does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.verify.kernels.plain_attention import U
from verify.kernels import find, load_all
from verify.kernels._precision import DTYPES

torch.set_num_threads(1)
SOFTMAXES = [  # other libraries' are tried in modules of their own
    name
    for name in load_all()
    if find(name)[1].operation in ("softmax", "log_softmax", "logsumexp")
    and not name.startswith(("control-", "cheat-"))
    and not find(name)[1].libraries
]


def called(name: str, x: torch.Tensor) -> Any:
    function, found = find(name)
    got = function(x if found.tensors == "torch" else x.numpy())
    return torch.as_tensor(got)


def truth(operation: str, x: torch.Tensor) -> torch.Tensor:
    y = x.double()
    return {
        "softmax": torch.softmax(y, -1),
        "log_softmax": torch.log_softmax(y, -1),
        "logsumexp": torch.logsumexp(y, -1),
    }[operation]


@pytest.mark.parametrize("name", SOFTMAXES)
def test_softmax_agrees_with_the_definition(name: str) -> None:
    _, found = find(name)
    for fmt in found.formats:
        for n in (1, 5, 37, 300):
            x = torch.randn(7, n, generator=torch.Generator().manual_seed(n)).to(DTYPES[fmt])
            got = called(name, x)
            assert got.dtype == x.dtype
            expected = truth(found.operation or "", x)
            assert got.shape == expected.shape
            allowed = 16 * U[fmt] * (1 + expected.abs())
            assert ((got.double() - expected).abs() <= allowed).all(), (fmt, n)


@pytest.mark.parametrize("name", SOFTMAXES)
def test_thousand_overflows_only_the_naive(name: str) -> None:
    got = called(name, torch.tensor([[1000.0, 1001.0, 999.0]]))
    assert bool(got.isfinite().all()) == ("naive" not in name)


def test_torch_log_softmax_rounds_its_logarithm_to_16_bits() -> None:
    """What the declared model rests on: bit for bit the arithmetic in the module's docstring."""
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.randn(50, 37, generator=torch.Generator().manual_seed(1)).to(dtype)
        y = x.float() - x.float().amax(-1, keepdim=True)
        total = y.exp().sum(-1, keepdim=True).to(dtype).float()
        again = (y - total.log().to(dtype).float()).to(dtype)
        assert torch.equal(torch.log_softmax(x, -1), again)


def test_numpy_rounds_its_half_sum_once() -> None:
    x = np.random.default_rng(0).random((20, 3000)).astype(np.float16)
    once = x.astype(np.float64).sum(-1).astype(np.float16)
    assert (np.abs(x.sum(-1).view(np.int16) - once.view(np.int16)) <= 1).all()
