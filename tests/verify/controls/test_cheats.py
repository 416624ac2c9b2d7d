"""Cheats are registered with what they do; their honest twins are right. (No cheat is run here.)"""

from __future__ import annotations

import pytest
import torch

from tests.verify.kernels.plain_attention import U
from verify.controls import TWINS
from verify.kernels import find, load_all
from verify.kernels._precision import DTYPES


def test_every_cheat_is_expected_to_fail_and_says_what_it_does() -> None:
    cheats = [name for name in load_all() if name.startswith("cheat-")]
    assert len(cheats) >= 20
    for name in cheats:
        function, found = find(name)
        assert found.expected == "fail"
        assert found.summary
        assert function.__doc__
    assert set(TWINS) <= set(cheats)


@pytest.mark.parametrize("fmt", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("name", sorted(set(TWINS.values()) - {"right-by-hand"}))
def test_honest_twins_are_right_twice_and_leave_their_input_alone(name: str, fmt: str) -> None:
    kernel, found = find(name)
    assert found.expected == "pass"
    x = torch.randn(3, 40, generator=torch.Generator().manual_seed(0)).to(DTYPES[fmt])
    before = x.clone()
    first = kernel(x)
    kept = first.clone()
    kernel(torch.zeros_like(x))
    assert torch.equal(first, kept)
    assert torch.equal(x, before)
    error = (first.double() - torch.softmax(x.double(), -1)).abs()
    assert (error <= 4 * U[fmt]).all()
