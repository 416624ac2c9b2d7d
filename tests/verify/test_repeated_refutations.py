"""A refutation is computed twice: the bound must come out the same, and a second call is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from verify import families, limits
from verify.calling import Bench
from verify.case import Case, Plan
from verify.certificate import Record
from verify.errors import OracleError
from verify.formats import BINARY32
from verify.in_process import InProcess
from verify.judge import Verdict
from verify.kernel import Kernel
from verify.pipeline import examine
from verify.truth import Oracle, decomposed


def wrong(x: Tensor) -> Tensor:
    """Softmax of twice the scores."""
    return torch.softmax(2 * x, dim=-1)


class Flaky:
    """Right on every second call only."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: Tensor) -> Tensor:
        self.calls += 1
        return torch.softmax(x if self.calls % 2 == 0 else 2 * x, dim=-1)


def case() -> Case:
    plan = Plan("softmax", BINARY32, "smoke", 0)
    return next(iter(families.family("standard_normal").cases(plan)))


def judged(function: Any) -> Record:
    flaky = isinstance(function, Flaky)

    def softmax(x: Tensor) -> Tensor:
        result: Tensor = function(x)
        return result

    with InProcess({"mine": softmax if flaky else function}) as runner:
        kernel = Kernel.from_description(runner.load("mine", "softmax"), {})
        return examine(case(), kernel, Bench(Oracle(), runner, grading=False))


def test_refutation_tells_what_a_second_call_gave() -> None:
    """The same bits from a wrong kernel; other bits from one that is wrong now and then."""
    steady, flaky = judged(wrong), judged(Flaky())
    assert steady.verdict is flaky.verdict is Verdict.FAIL
    assert steady.metrics["repeated"] == "the same bits"
    assert str(flaky.metrics["repeated"]).startswith("other bits in ")


def test_bound_that_differs_when_computed_again_is_our_own_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A glitch in what the bound is made of stops the run instead of refuting a kernel."""

    def glitch(*arguments: Any) -> Any:
        parts = decomposed(*arguments)
        return replace(parts, p=parts.p * 3.0)

    monkeypatch.setattr(limits, "decomposed", glitch)
    with pytest.raises(OracleError, match="differs when computed again"):
        judged(wrong)
