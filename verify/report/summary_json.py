"""summary.json: one entry for each certificate, from which pages over several reports are made."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from verify.certificate import Certificate, Record
from verify.judge import Verdict
from verify.report import facts


def json_text(certificates: Sequence[Certificate]) -> str:
    """The entries as JSON text; infinite numbers are the strings inf and -inf."""
    return json.dumps([entry(c) for c in certificates], indent=1) + "\n"


def entry(certificate: Certificate) -> dict[str, Any]:
    """
    One certificate in a few words.

    kernel, operation, format, device, profile, packages (name: version), expected, command
    verdict      as the report words it
    grade        letter, or None
    tightness    largest error / bound over the judged cases, or None
    worst case   id of the case that decides: the refuted one, else the tightest
    reason       why the kernel is refuted, or cannot run, in words; None where it is certified
    counts       records per verdict
    """
    worst = facts.worst(_deciding(certificate))
    return {
        "kernel": facts.name(certificate),
        "operation": facts.operation(certificate),
        "format": certificate.format,
        "device": certificate.device,
        "profile": certificate.profile,
        "packages": dict(certificate.kernel["identity"].get("package", {})),
        "expected": certificate.expected,
        "verdict": facts.status(certificate).word,
        "grade": None if certificate.grade is None else certificate.grade.letter,
        "worst tightness": _plain(facts.largest_tightness(certificate)),
        "worst case": None if worst is None else worst.case,
        "reason": _reason(certificate, worst),
        "counts": {word: n for word, n in certificate.counts().items() if n},
        "command": certificate.command,
    }


def _deciding(certificate: Certificate) -> list[Record]:
    """Where the verdict is not PASS the records with that verdict, else those that were judged."""
    if certificate.verdict is Verdict.PASS:
        return facts.judged(certificate)
    return [r for r in certificate.records if r.verdict is certificate.verdict]


def _reason(certificate: Certificate, worst: Record | None) -> str | None:
    if certificate.verdict is Verdict.PASS:
        return None
    if certificate.expected == "unavailable":
        return "; ".join(sorted({s.reason for s in certificate.skipped}))
    known = certificate.kernel.get("refuted")
    return str(known) if known else None if worst is None else worst.reason


def _plain(number: float | None) -> float | str | None:
    if number is None or math.isfinite(number):
        return number
    return str(number)
