"""What the commands exit with: several certificates, one status (the table: `verify.cli`)."""

from __future__ import annotations

from collections.abc import Sequence

import click

from verify.certificate import Certificate
from verify.waivers import Waiver, problems


def report_unexpected(certificates: list[Certificate]) -> int:
    """Name what is not as expected; 1 where there is any, 4 where nothing was run, else 0."""
    unexpected = [c for c in certificates if not as_expected(c)]
    for certificate in unexpected:
        click.echo(f"not as expected: {certificate.name}: {certificate.verdict}", err=True)
    if not any(c.records for c in certificates):
        return 4
    return 1 if unexpected else 0


def report_waivers(
    waivers: Sequence[Waiver], certificates: list[Certificate], *, complete: bool
) -> int:
    """Name the waivers that have ended or are not needed; how many there are."""
    found = problems(waivers, certificates, complete=complete)
    for text in found:
        click.echo(f"attncert: {text}", err=True)
    return len(found)


def as_expected(certificate: Certificate) -> bool:
    """Whether a verdict is the one that the kernel is shipped for."""
    wanted = {"pass": "PASS", "fail": "FAIL", "unavailable": "INCONCLUSIVE"}
    return certificate.verdict.value == wanted[certificate.expected]


def status_of(certificates: list[Certificate]) -> int:
    """The exit status of several certificates: the worst of theirs."""
    order = (3, 1, 5, 4, 0)
    statuses = {c.exit_status for c in certificates} or {4}
    return next((s for s in order if s in statuses), max(statuses))
