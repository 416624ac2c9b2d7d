"""A certificate speaks of one direction: gradients are asked for, named and judged on their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from verify.certificate import Certificate, read
from verify.certifying import Request, certify_all
from verify.describing import read_signature
from verify.errors import UsageError
from verify.judge import Verdict
from verify.reproducing import reproduce
from verify.worker_process import load

# the forward pass is right, its hand-written backward pass forgets D
HALF_RIGHT = """
import torch

class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        p = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1)
        ctx.save_for_backward(q, k, v, p)
        return p @ v

    @staticmethod
    def backward(ctx, do):
        q, k, v, p = ctx.saved_tensors
        ds = p * (do @ v.mT) / q.shape[-1] ** 0.5
        return ds @ k, ds.mT @ q, p.mT @ do

def attention(q, k, v):
    return Attention.apply(q, k, v)

def attention_backward(q, k, v, do):
    scale = q.shape[-1] ** -0.5
    p = torch.softmax(q @ k.mT * scale, dim=-1)
    dp = do @ v.mT
    ds = p * (dp - (p * dp).sum(-1, keepdim=True)) * scale
    return ds @ k, ds.mT @ q, p.mT @ do

def softmax_backward(x, dy):
    y = torch.softmax(x, dim=-1)
    return y * (dy - (y * dy).sum(-1, keepdim=True))
"""
WITHOUT: dict[str, Any] = {"without": ("gqa", "cross", "empty", "nonfinite")}


def certified(kernel: str, **request: Any) -> list[Certificate]:
    wanted = {"formats": "fp32", "only": ("seed_case",), "profile": "smoke"} | request
    return certify_all(Request((kernel,), **wanted))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("kernels") / "half_right.py"
    path.write_text(HALF_RIGHT, encoding="utf-8")
    return str(path)


def test_forward_certificate_does_not_vouch_for_the_gradient(source: str) -> None:
    """The same kernel: certified forward, refuted backward."""
    forward, backward = certified(f"{source}:attention", direction="both", declared=WITHOUT)
    assert (forward.direction, backward.direction) == ("forward", "backward")
    assert forward.verdict is Verdict.PASS
    assert backward.verdict is Verdict.FAIL
    assert backward.kernel["operation"] == "attention_backward"
    assert " backward " in backward.name
    assert " backward " not in forward.name
    found = next(r.finding for r in backward.records if r.verdict is Verdict.FAIL)
    assert found is not None
    assert found.output in ("dq", "dk")


@pytest.mark.parametrize("name", ["attention_backward", "softmax_backward"])
def test_backward_kernel_is_known_by_its_signature(source: str, name: str) -> None:
    declared = WITHOUT if name == "attention_backward" else {}
    (certificate,) = certified(f"{source}:{name}", declared=declared)
    assert certificate.kernel["operation"] == name
    assert certificate.verdict is Verdict.PASS


def test_both_directions_are_written_and_reproduced_under_their_own_names(tmp_path: Path) -> None:
    one, two = certified("textbook-attention-two-pass", direction="both", folder=tmp_path)
    names = sorted(path.name for path in tmp_path.glob("*.json"))
    assert names == [
        "textbook-attention-two-pass-backward-fp32-cpu.json",
        "textbook-attention-two-pass-fp32-cpu.json",
    ]
    assert {one.verdict, two.verdict} == {Verdict.PASS}
    path = tmp_path / names[0]
    assert read(path).direction == "backward"
    assert reproduce(f"{path}#worst").exit_status == 0


def test_gradient_of_a_closure_is_taken_in_this_process() -> None:
    def attention(q: Tensor, k: Tensor, v: Tensor, *, scale: float) -> Tensor:
        return torch.softmax(scale * q @ k.mT, dim=-1) @ v

    (found,) = certified("mine", function=attention, direction="backward", declared=WITHOUT)
    assert found.verdict is Verdict.PASS
    assert found.kernel["operation"] == "attention_backward"


@pytest.mark.parametrize(
    ("kernel", "direction", "says"),
    [
        ("textbook-attention-flash-backward", "forward", "is a backward pass"),
        ("torch-logsumexp", "backward", "gradient of logsumexp is not judged"),
        ("numpy-softmax", "backward", "torch tensors"),
        ("textbook-attention-split", "backward", "declares no backward pass"),
    ],
)
def test_direction_that_a_kernel_does_not_have_is_a_usage_error(
    kernel: str, direction: str, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        load(kernel, None, direction)


def test_longest_signature_wins() -> None:
    def backward(q: Any, k: Any, v: Any, dout: Any, *, scale: float, bias: Any = None) -> None: ...
    def rows(x: Any, dy: Any) -> None: ...

    assert read_signature(backward, None) == ("attention_backward", ["scale", "bias"])
    assert read_signature(rows, None)[0] == "softmax_backward"


def test_gradients_beside_an_undeclared_empty_row_are_out_of_scope() -> None:
    """A kernel that gives NaN for a row without keys promises no gradient of that call."""
    (found,) = certified(
        "textbook-attention-two-pass",
        direction="backward",
        only=("empty_rows",),
        profile="standard",
        declared={"empty_row": "nan"},
    )
    assert found.records
    assert {r.verdict for r in found.records} == {Verdict.OUT_OF_SCOPE}
    assert all("gradient is undeclared" in r.reason for r in found.records)
