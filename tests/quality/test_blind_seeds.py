"""Blind seeds: drawn after the kernel is loaded, committed to, revealed, and reproducible."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from verify.campaign import Campaign
from verify.certificate import Certificate, Record, commitment, read, recheck
from verify.certifying import Request, certify_all
from verify.errors import UsageError
from verify.reproducing import reproduce

REQUEST = Request(
    ("textbook-softmax-shifted",), "bf16", profile="smoke", only=("standard_normal",), blind=True
)


class Watcher:
    """Remembers what was told before the first call."""

    def __init__(self) -> None:
        self.told: list[str | None] = []
        self.order: list[str] = []

    def starting(self, campaign: Campaign) -> None:
        self.told.append(campaign.commitment)
        self.order.append("commitment")

    def progress(self, done: int, total: int, record: Record) -> None:
        self.order.append("record")

    def finished(self, certificate: Certificate) -> None:
        self.order.append("revealed")


def test_commitment_comes_first_and_binds(tmp_path: Path) -> None:
    """Its hash is told before any record, and the certificate reveals the seed."""
    watcher = Watcher()
    [certificate] = certify_all(replace(REQUEST, folder=tmp_path), watcher)
    assert watcher.order[0] == "commitment"
    assert watcher.order[-1] == "revealed"
    assert watcher.told == [commitment(certificate.seed)] == [certificate.commitment]
    assert recheck(read(next(tmp_path.glob("*.json")))) == []
    assert recheck(replace(certificate, seed=certificate.seed + 1)) == [
        "the seed is not the one that was committed to"
    ]


def test_every_run_draws_another_seed_and_other_inputs() -> None:
    """A kernel cannot know its cases."""
    one, two = certify_all(REQUEST), certify_all(REQUEST)
    assert one[0].seed != two[0].seed
    assert one[0].seed.bit_length() > 64
    assert {r.digest for r in one[0].records}.isdisjoint(r.digest for r in two[0].records)


def test_reproduce_regenerates_the_cases_of_a_blind_run(tmp_path: Path) -> None:
    """Bit for bit, from the seed that was revealed."""
    certify_all(replace(REQUEST, folder=tmp_path))
    assert reproduce(str(next(tmp_path.glob("*.json")))).exit_status == 0


def test_blind_seed_excludes_a_chosen_one() -> None:
    """Neither --seed nor --resume goes with it."""
    for changed in (replace(REQUEST, seed=3), replace(REQUEST, resume=True)):
        with pytest.raises(UsageError, match="draws a fresh seed"):
            certify_all(changed)
