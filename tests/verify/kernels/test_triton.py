"""Triton kernels under the interpreter: our example, published ones, and what is wrong in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verify.kernels.certified import refused
from verify.certifying import Request, certify_all
from verify.judge import Verdict

pytestmark = pytest.mark.third_party
EXAMPLE = Path(__file__).parents[3] / "examples" / "triton_flash.py"


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("triton-flash", "triton"),
        ("liger-softmax", "liger_kernel"),
        ("fla-parallel-attn", "fla"),
        ("conch-varlen", "conch"),
    ],
)
def test_declared_arithmetic_is_not_refuted_in_binary32(name: str, package: str) -> None:
    """No case of the smoke profile contradicts the model that the kernel's source implies."""
    pytest.importorskip("triton")
    if package != "triton":
        pytest.importorskip(package)
    verdict, refuted = refused(name, "fp32", None)
    assert verdict is Verdict.PASS, refuted


def test_the_example_is_certified_as_a_user_would() -> None:
    """The file that a kernel author starts from, in the format in which P is rounded."""
    pytest.importorskip("triton")
    request = Request((f"{EXAMPLE}:attention",), formats="fp16", profile="smoke")
    assert certify_all(request)[0].verdict is Verdict.PASS


def test_conch_loses_the_maximum_in_binary16() -> None:
    """Known defect (reports/findings): the rescale factor uses a maximum that was rounded."""
    pytest.importorskip("conch")
    verdict, refuted = refused("conch-varlen", "fp16", ["huge_offset"])
    assert verdict is Verdict.FAIL
    assert {r.family for r in refuted} == {"huge_offset"}
