"""Rows declared to give the mean of V are held to the bound of a mean, and to nothing wider."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from verify.certifying import Request, certify_all
from verify.declaration import declare
from verify.judge import Verdict

Kernel = Callable[..., Tensor]


def masked_by_a_finite_number(drop: int) -> Kernel:
    """Removed keys get one finite score; `drop` keys are left out of rows that see none."""

    @declare(model="eager", empty_row="mean", masked_nonfinite="leaks")
    def attention(q: Tensor, k: Tensor, v: Tensor, *, scale: float, mask: Tensor) -> Tensor:
        scores = (q.float() @ k.float().mT * scale).to(q.dtype)
        scores = torch.where(mask, scores, torch.finfo(q.dtype).min).float()
        if drop:
            empty = ~mask.any(dim=-1, keepdim=True)
            scores[..., -drop:] = torch.where(empty, -torch.inf, scores[..., -drop:])
        return (scores.softmax(-1).to(q.dtype).float() @ v.float()).to(q.dtype)

    return attention


@pytest.mark.parametrize("fmt", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("drop", [0, 2])
def test_the_mean_of_v_passes_and_that_of_fewer_values_does_not(fmt: str, drop: int) -> None:
    """Before this bound existed such rows were held to an error of 0, which no mean keeps."""
    request = Request(
        ("attention",),
        formats=fmt,
        only=("empty_rows",),
        profile="smoke",
        function=masked_by_a_finite_number(drop),
    )
    certificate = certify_all(request)[0]
    assert certificate.records
    assert certificate.verdict is (Verdict.FAIL if drop else Verdict.PASS)
    if not drop:  # what the rows mean is no matter of arithmetic
        assert certificate.grade is not None
        assert certificate.grade.letter != "U"
