"""Certify a shipped kernel on some families, for the tests of other people's libraries."""

from __future__ import annotations

from collections.abc import Sequence

from verify.case import Profile
from verify.certificate import Record
from verify.certifying import Request, certify_all
from verify.judge import Verdict

FEW = ("seed_case", "standard_normal", "exact_scores", "big_scores", "causal", "boolean_masks")


def refused(
    kernel: str,
    fmt: str,
    families: Sequence[str] | None = FEW,
    profile: Profile = "smoke",
) -> tuple[Verdict, list[Record]]:
    """The verdict of the profile, and the records that are neither PASS nor out of scope."""
    request = Request(
        (kernel,), formats=fmt, profile=profile, only=None if families is None else tuple(families)
    )
    certificate = certify_all(request)[0]
    assert certificate.records, f"nothing ran of {kernel} in {fmt}"
    fine = (Verdict.PASS, Verdict.OUT_OF_SCOPE)
    return certificate.verdict, [r for r in certificate.records if r.verdict not in fine]
