"""Hardware that flushes subnormals: refuted undeclared with a hint, right where it is declared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from verify import families
from verify.calling import Bench
from verify.case import Plan
from verify.certificate import Record
from verify.errors import UsageError
from verify.formats import BFLOAT16, BINARY32
from verify.in_process import InProcess
from verify.judge import Verdict
from verify.kernel import Kernel
from verify.pipeline import examine
from verify.presets import PRESET_NAMES, preset
from verify.terminal import described
from verify.truth import Oracle

SMALLEST = 2.0**-126


def flushing(x: Any) -> Any:
    """A softmax in binary32 that writes subnormals as zero."""
    p = torch.softmax(x.float(), dim=-1)
    return torch.where(p < SMALLEST, 0.0, p).to(x.dtype)


def a_hundredth_lost(x: Any) -> Any:
    """Zero from a hundredth on: no hardware does that."""
    p = torch.softmax(x.float(), dim=-1)
    return torch.where(p < 0.01, 0.0, p).to(x.dtype)


def records(function: Any, **declared: Any) -> list[Record]:
    with InProcess({"mine": function}) as runner:
        kernel = Kernel.from_description(runner.load("mine", "softmax"), declared)
        bench = Bench(Oracle(), runner, grading=False)
        cases = families.family("exp_ladder").cases(Plan("softmax", BINARY32, "standard", 0))
        return [examine(case, kernel, bench) for case in cases]


def test_a_kernel_that_flushes_is_refuted_and_told_how_to_declare_it() -> None:
    failed = [r for r in records(flushing, model="eager") if r.verdict is Verdict.FAIL]
    assert failed
    assert all("--model NAME+ftz" in described(r, "mine") for r in failed)


def test_a_kernel_that_declares_it_passes() -> None:
    assert {r.verdict for r in records(flushing, model="eager+ftz")} == {Verdict.PASS}


def test_zeros_for_larger_numbers_fail_without_the_hint() -> None:
    """Neither the declaration nor the hint is a way out: a subnormal is hinted at,
    a number that is 2^9 times the smallest normal one is not, and neither is an exact 0."""
    for model in ("eager", "eager+ftz"):
        failed = [r for r in records(a_hundredth_lost, model=model) if r.verdict is Verdict.FAIL]
        assert failed
        for record in failed:
            assert record.finding is not None
            for truth, hinted in ((2.0**-119, True), (2.0**-117, False), (0.0, False)):
                found = replace(record.finding, value="0.0", truth_hi=truth.hex())
                told = described(replace(record, finding=found), "mine")
                assert ("+ftz" in told) is hinted


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_every_preset_has_a_flushing_one_that_differs_in_that_alone(name: str) -> None:
    fmt = BINARY32 if name in ("tf32", "bf16-products") else BFLOAT16
    plain, flushes = preset(name, fmt), preset(f"{name}+ftz", fmt)
    assert flushes.name == f"{name}+ftz"
    for before, after in (
        (plain.variants, flushes.variants),
        (plain.backward, flushes.backward),
    ):
        for one, other in zip(before, after, strict=True):
            same = {**one.to_json(), "flush_to_zero": True}
            assert other.to_json() == same


def test_unknown_names_are_told_what_there_is() -> None:
    for name in ("eagre", "eager+fzt", "+ftz"):
        with pytest.raises(UsageError, match="each with \\+ftz where the hardware"):
            preset(name, BFLOAT16)
