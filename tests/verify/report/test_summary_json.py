"""summary.json says of each certificate what a page over several reports needs."""

from __future__ import annotations

import json
import math
from dataclasses import replace

from tests.verify.report.factory import certificate, several
from verify.certificate import Certificate
from verify.judge import Verdict
from verify.report.summary_json import entry, json_text


def test_one_entry_for_each_certificate_in_strict_json() -> None:
    chosen = several()
    text = json_text(chosen)
    assert "NaN" not in text
    assert "Infinity" not in text
    found = json.loads(text)
    assert [e["kernel"] for e in found] == [c.kernel["name"] for c in chosen]
    assert [e["format"] for e in found] == [c.format for c in chosen]


def test_a_certified_kernel_needs_no_reason_and_names_its_tightest_case() -> None:
    made = next(c for c in several() if c.verdict is Verdict.PASS)
    found = entry(made)
    assert found["reason"] is None
    tightest = max(r.tightness or 0.0 for r in made.records if math.isfinite(r.tightness or 0.0))
    assert found["worst tightness"] == tightest
    assert found["worst case"] in {r.case for r in made.records if r.tightness == tightest}


def test_a_refuted_kernel_gives_the_known_reason_else_that_of_its_worst_case() -> None:
    made = next(c for c in several() if c.verdict is Verdict.FAIL)
    failing = {r.case: r.reason for r in made.records if r.verdict is Verdict.FAIL}
    found = entry(made)
    assert found["worst case"] in failing
    assert found["reason"] == failing[found["worst case"]]
    known = replace(made, kernel={**made.kernel, "refuted": "it adds -65504"})
    assert entry(known)["reason"] == "it adds -65504"


def test_what_cannot_run_says_why() -> None:
    plain = certificate()
    skipped = tuple(replace(s, reason="not available: no jax") for s in plain.skipped)
    assert skipped
    made = replace(plain, expected="unavailable", verdict=Verdict.INCONCLUSIVE, skipped=skipped)
    assert entry(made)["reason"] == "not available: no jax"


def test_a_certificate_with_a_known_finding_is_valid() -> None:
    """It can be read back from its file."""
    made = next(c for c in several() if c.verdict is Verdict.FAIL)
    known = replace(made, kernel={**made.kernel, "refuted": "it adds -65504"})
    assert Certificate.from_json(known.to_json()).kernel["refuted"] == "it adds -65504"
