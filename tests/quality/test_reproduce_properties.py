"""A property's record is reproduced from its id alone, with the calls that came before it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from verify import properties
from verify.calling import Bench
from verify.campaign import certify
from verify.case import Plan
from verify.certificate import Certificate, write
from verify.certifying import Request, campaign_of, loaded
from verify.errors import CertificateError
from verify.formats import BFLOAT16
from verify.properties import Trial
from verify.reproducing import reproduce
from verify.truth import Oracle
from verify.worker import Worker


def certified(kernel_name: str, names: tuple[str, ...], seed: int = 0) -> Certificate:
    """A certificate of some properties only."""
    request = Request((kernel_name,), "bf16", profile="smoke", seed=seed)
    with Worker() as worker:
        kernel = loaded(worker, kernel_name, request)
        bench = Bench(Oracle(audit=0), worker, grading=False)
        plan = Plan(kernel.operation, BFLOAT16, "smoke", seed)
        trial = Trial(kernel, BFLOAT16, bench, plan)
        records = tuple(properties.try_all(trial, names))
        campaign = campaign_of(kernel, BFLOAT16, request)
        return certify(campaign, records, (), len(records), bench, 0.0)


def test_property_record_is_reproduced_bit_for_bit(tmp_path: Path) -> None:
    """Also one that only the calls before it make fail; but not from other inputs."""
    certificate = certified("control-stale-plan", ("changed_attribute",), seed=5)
    case = "changed_attribute/bf16/scale-B1"
    assert {r.case: r.verdict.value for r in certificate.records}[case] == "FAIL"
    write(certificate, tmp_path / "c.json")
    found = reproduce(f"{tmp_path / 'c.json'}#{case}")
    assert found.exit_status == 0, found.text
    assert found.text.endswith("as certified, bit for bit")
    changed = [replace(r, digest="0" * 64) for r in certificate.records]
    write(replace(certificate, records=tuple(changed)), tmp_path / "c.json")
    with pytest.raises(CertificateError, match="makes other inputs"):
        reproduce(f"{tmp_path / 'c.json'}#{case}")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["extra_layouts", "split_and_merge"])
def test_worst_record_may_be_that_of_a_property(name: str, tmp_path: Path) -> None:
    """`#worst` too."""
    kernel = {"extra_layouts": "control-ignores-extra-strides"}.get(name, "control-base-two-lse")
    write(certified(kernel, (name,)), tmp_path / "c.json")
    assert reproduce(f"{tmp_path / 'c.json'}#worst").exit_status == 0
