"""What other gates let pass, and the smallest error that ours refutes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from verify.calling import Bench
from verify.case import Plan
from verify.families import family
from verify.formats import BFLOAT16, BINARY32
from verify.selftest import power
from verify.selftest.hunt import load
from verify.selftest.peers import GATES, accepts, trials
from verify.truth import Oracle
from verify.worker import Worker


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, bool | None]]:
    """Kernel -> gate -> whether it is accepted, in bfloat16."""
    found: dict[str, dict[str, bool | None]] = {}
    with Worker() as worker:
        bench = Bench(Oracle(audit=0), worker, grading=False)
        for name in ("control-zeros", "control-finite-minus-infinity", "right-two-pass"):
            kernel = load(worker, name)
            found[name] = {g.name: accepts(g, trials(g, BFLOAT16), kernel, bench) for g in GATES}
    return found


def test_right_kernel_passes_every_gate(answers: Any) -> None:
    """So that a rejection means something."""
    assert all(answers["right-two-pass"].values())


def test_zeros_pass_no_gate(answers: Any) -> None:
    """The rules are theirs, but not strawmen."""
    assert not any(answers["control-zeros"].values())


def test_fault_of_published_kernels_passes_every_gate(answers: Any) -> None:
    """A maximum that starts at -5e4: no standard-normal or uniform input can show it."""
    assert all(answers["control-finite-minus-infinity"].values())


@pytest.mark.parametrize(("fmt", "largest"), [(BFLOAT16, 2.0**-4), (BINARY32, 2.0**-17)])
def test_uniform_scale_of_few_roundoffs_is_refuted(fmt: Any, largest: float) -> None:
    """A standard-normal family sees a relative error of some units of u."""
    cells = power.power(fmt, ("seed_case", "constant_v"))
    sizes = [cell["scale"] for by_n in cells.values() for cell in by_n.values()]
    assert min(s for s in sizes if isinstance(s, float)) <= largest


def test_what_cannot_be_certified_says_so() -> None:
    """Where the bound exceeds the signal nothing is a PASS."""
    case = next(iter(family("seed_case").cases(Plan("attention", BFLOAT16))))
    bench = Bench(Oracle(audit=0), Worker(), grading=False)
    subject = power._subject(case, bench)
    assert subject is not None
    wide = replace(subject.limits, bound=np.full(subject.best.shape, 1e300))
    cell = power.cell([replace(subject, limits=wide)])
    assert set(cell.values()) == {power.NOT_CERTIFIABLE}
