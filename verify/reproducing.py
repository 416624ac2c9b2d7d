"""Reproduce: one case or property of a certificate again, from its id, in decimal, hex and bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verify import families, properties
from verify.calling import Bench
from verify.campaign import environment
from verify.case import Case, Plan
from verify.certificate import Certificate, Record, read
from verify.certifying import Request, loaded
from verify.errors import CertificateError
from verify.formats import format_named
from verify.judge import Verdict
from verify.operation import direction_of
from verify.pipeline import examine
from verify.properties import Trial
from verify.terminal import explain
from verify.truth import Oracle
from verify.worker import Worker


@dataclass(frozen=True)
class Result:
    """What came out, as text, and 0 where it is what the certificate says, else 1."""

    text: str
    exit_status: int


def reproduce(target: str, seconds: float = 60.0) -> Result:
    """Run the case `CERTIFICATE.json#CASE` again (CASE: an id or `worst`).

    Raises      CertificateError where there is no such case, or its inputs are no longer the same.
    """
    path, _, wanted = target.partition("#")
    certificate = read(Path(path))
    old = _record(certificate, wanted or "worst")
    if certificate.isolation == "computed elsewhere":
        raise CertificateError(
            f"the outputs of {certificate.name} were computed elsewhere, so nothing here can call "
            f"the kernel again; judge its outputs again with: {certificate.command}"
        )
    structural = old.family in properties.names()
    case = None if structural else _same_inputs(_case(certificate, old), old)
    declared = declared_fields(certificate.kernel["declaration"])
    operation = str(certificate.kernel["operation"])
    request = Request(
        (certificate.kernel["name"],),
        device=certificate.device,
        declared=declared,
        direction=direction_of(operation),
    )
    with Worker(seconds=seconds) as worker:
        kernel = loaded(worker, certificate.kernel["name"], request)
        bench = Bench(Oracle(), worker, certificate.device, grading=False)
        new = (
            _property(
                old, Trial(kernel, format_named(certificate.format), bench, _plan(certificate))
            )
            if case is None
            else examine(case, kernel, bench)
        )
    lines = [explain(new, certificate, Path(path).parent).strip(), ""]
    lines += _differences(certificate, environment(kernel), kernel.identity)
    same = (new.verdict, new.reason, new.finding) == (old.verdict, old.reason, old.finding)
    lines.append("as certified, bit for bit" if same else _changed(old, new))
    return Result("\n".join(lines), 0 if same else 1)


def _same_inputs(case: Case, old: Record) -> Case:
    """The case, if its inputs are those of the certificate."""
    if case.build().digest != old.digest:
        raise CertificateError(
            f"{old.case}: this version makes other inputs than the certificate's"
        )
    return case


def _property(old: Record, trial: Trial) -> Record:
    """The record of a property again: all of its calls in order, for they may depend on each other.

    Raises      CertificateError where the property no longer makes this record, or from other
                inputs.
    """
    found = properties.property_named(old.family)
    refusal = found.refusal(trial.kernel)
    if refusal is not None:
        raise CertificateError(f"{old.case}: the kernel {refusal}, so nothing is tried")
    for record in found.tried(trial):
        if record.case == old.case:
            if record.digest != old.digest:
                raise CertificateError(
                    f"{old.case}: this version makes other inputs than the certificate's"
                )
            return record
    raise CertificateError(f"this version has no record {old.case!r}")


def _record(certificate: Certificate, wanted: str) -> Record:
    if not certificate.records:
        raise CertificateError(f"the certificate of {certificate.name} has no case")
    if wanted == "worst":
        order = list(Verdict)
        return min(
            certificate.records,
            key=lambda r: (order.index(r.verdict), -(r.tightness or 0.0)),
        )
    for record in certificate.records:
        if record.case == wanted:
            return record
    raise CertificateError(f"the certificate of {certificate.name} has no case {wanted!r}")


def _plan(certificate: Certificate) -> Plan:
    return Plan(
        certificate.kernel["operation"],
        format_named(certificate.format),
        certificate.profile,  # type: ignore[arg-type]
        certificate.seed,
    )


def _case(certificate: Certificate, record: Record) -> Case:
    for case in families.family(record.family).cases(_plan(certificate)):
        if case.id == record.case:
            return case
    raise CertificateError(f"this version has no case {record.case!r}")


def declared_fields(declaration: Mapping[str, Any]) -> dict[str, Any]:
    """A declaration of a certificate as arguments again."""
    values = dict(declaration)
    for key in ("without", "d"):
        values[key] = tuple(values[key])
    return values


def _differences(
    certificate: Certificate, now: Mapping[str, Any], identity: Mapping[str, Any]
) -> list[str]:
    """What is not as it was: versions, machine, the kernel's own file."""
    then: dict[str, Any] = {**certificate.environment, **certificate.environment.get("worker", {})}
    today: dict[str, Any] = {**now, **now.get("worker", {})}
    pairs = [
        (k, then.get(k), today.get(k)) for k in sorted(then) if k not in ("worker", "libraries")
    ]
    pairs.append(
        ("kernel file", certificate.kernel["identity"].get("sha256"), identity.get("sha256"))
    )
    return [f"changed since: {k}: {a} -> {b}" for k, a, b in pairs if a != b]


def _changed(old: Record, new: Record) -> str:
    if old.verdict is not new.verdict:
        return f"not as certified: it was {old.verdict}, it is {new.verdict}"
    return "the same verdict, other bits"
