"""GPU libraries are listed where they cannot run, with the reason and how to install them."""

from __future__ import annotations

import pytest
import torch

from verify.kernels import find

NAMES = ["flash-attn-2", "flash-attn-3", "xformers", "flashinfer-prefill", "transformer-engine"]


@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_run_here_is_said_with_the_remedy(name: str) -> None:
    """Without a device the reason names it; without the package it tells how to get it."""
    _, found = find(name)
    assert found.unavailable is not None
    assert found.devices == ("cuda",)
    reason = found.unavailable()
    if not torch.cuda.is_available():
        assert reason is not None
        assert "no CUDA device" in reason
        assert reason == "no CUDA device" or "pip install" in reason
