"""What a certificate says, as the sections ask for it. Nothing is judged here."""

from __future__ import annotations

import hashlib
import math
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from statistics import median
from typing import Any

from verify.certificate import Certificate, Finding, Record
from verify.evidence import IN_WORKER, Way
from verify.formats import FORMATS
from verify.judge import Verdict
from verify.operation import OPERATIONS
from verify.report.words import (
    NOT_CERTIFIABLE,
    STATUS,
    UNAVAILABLE,
    Status,
    as_float,
    is_finite,
    words,
)

PROPERTY = "property:"
SEED_CASE = "seed_case"
_OPERATIONS = OPERATIONS
FORMAT_ORDER = ("fp16", "bf16", "fp32", "fp64", "e4m3", "e5m2")
_PRECEDENCE = tuple(Verdict)


def arranged(certificates: Iterable[Certificate]) -> list[Certificate]:
    """Certificates in the order of the report, whatever order they came in."""
    return sorted(certificates, key=_place)


def _place(certificate: Certificate) -> tuple[Any, ...]:
    return (
        _index(_OPERATIONS, operation(certificate)),
        name(certificate),
        certificate.device,
        _index(FORMAT_ORDER, certificate.format),
        certificate.profile,
        certificate.created,
        certificate.command,
    )


def _index(known: Sequence[str], item: str) -> tuple[int, str]:
    return (known.index(item) if item in known else len(known), item)


def name(certificate: Certificate) -> str:
    """The kernel's name; that of its gradients says so."""
    backward = " (backward)" if certificate.direction == "backward" else ""
    return f"{certificate.kernel['name']}{backward}"


def operation(certificate: Certificate) -> str:
    return str(certificate.kernel["operation"])


def groups(certificates: Sequence[Certificate]) -> dict[tuple[str, str], list[Certificate]]:
    """Certificates that compare with one another: by operation and device."""
    found: dict[tuple[str, str], list[Certificate]] = defaultdict(list)
    for certificate in certificates:
        found[operation(certificate), certificate.device].append(certificate)
    return dict(found)


def formats(certificates: Sequence[Certificate]) -> list[str]:
    """The formats that occur, 16-bit ones first."""
    return sorted({c.format for c in certificates}, key=lambda f: _index(FORMAT_ORDER, f))


def group_title(key: tuple[str, str]) -> str:
    """Operation and device as a heading."""
    return f"{words(key[0])} on {key[1]}"


def title(certificate: Certificate) -> str:
    """Kernel and format."""
    return f"{name(certificate)} {certificate.format}"


def titles(certificates: Sequence[Certificate]) -> list[str]:
    """For each certificate a title that no other has: device and date where they are needed."""
    plain = [title(c) for c in certificates]
    device = _told_apart(plain, [c.device for c in certificates])
    profile = _told_apart(device, [c.profile for c in certificates])
    created = _told_apart(profile, [c.created for c in certificates])
    return _told_apart(created, [f"no. {i}" for i in range(1, len(created) + 1)])


def _told_apart(names: list[str], more: list[str]) -> list[str]:
    counts = Counter(names)
    return [f"{n}, {m}" if counts[n] > 1 else n for n, m in zip(names, more, strict=True)]


def ways(certificates: Sequence[Certificate]) -> list[tuple[Way, list[str]]]:
    """The ways by which outputs came, other than from a Python function; with the titles."""
    found: dict[Way, list[str]] = defaultdict(list)
    for title, c in zip(titles(certificates), certificates, strict=True):
        if c.evidence is not None and c.evidence["way"] not in (IN_WORKER, "in-process"):
            told = c.evidence
            found[Way(told["meaning"], tuple(told["cannot_prove"]), c.isolation)].append(title)
    return list(found.items())


def file_name(certificate: Certificate) -> str:
    """The file that a campaign writes for this certificate (`verify.campaign.file_stem`)."""
    kernel = str(certificate.kernel["name"])
    base = PurePath(kernel).name
    plain = "".join(c if c.isalnum() or c in "._-" else "-" for c in base).strip("-")
    tag = "" if plain == kernel else "-" + hashlib.sha256(kernel.encode()).hexdigest()[:6]
    backward = "-backward" if certificate.direction == "backward" else ""
    return f"{plain}{tag}{backward}-{certificate.format}-{certificate.device}.json"


def reproduce(certificate: Certificate, case: str) -> str:
    """The command that runs one case again, in the folder of the certificates."""
    if certificate.isolation == "computed elsewhere":
        return certificate.command
    return f"attncert reproduce {quoted(file_name(certificate))}#{quoted(case)}"


def quoted(text: str) -> str:
    """Text as part of a shell word; left alone where nothing in it is special there."""
    return text if re.fullmatch(r"[A-Za-z0-9._/+=:,@-]*", text) else shlex.quote(text)


def vacuous(record: Record) -> bool:
    """Whether a record is out of scope because its bound exceeds the signal."""
    if record.verdict is not Verdict.OUT_OF_SCOPE:
        return False
    nothing_judged = record.counts.get("vacuous", 0) > 0 and not record.counts.get("judged", 0)
    return nothing_judged or record.reason.startswith("vacuous")


def record_status(record: Record) -> Status:
    return NOT_CERTIFIABLE if vacuous(record) else STATUS[record.verdict]


def status(certificate: Certificate) -> Status:
    """The verdict of a certificate; NOT CERTIFIABLE where vacuous bounds alone put it out."""
    if certificate.expected == "unavailable":
        return UNAVAILABLE
    if certificate.verdict is Verdict.OUT_OF_SCOPE and any(map(vacuous, certificate.records)):
        return NOT_CERTIFIABLE
    return STATUS[certificate.verdict]


def as_expected(certificate: Certificate) -> bool:
    """A kernel that is shipped to be refuted must be, one that cannot run here must not be judged,
    and any other must pass."""
    wanted = {"fail": Verdict.FAIL, "unavailable": Verdict.INCONCLUSIVE}
    return certificate.verdict is wanted.get(certificate.expected, Verdict.PASS)


def expectation(certificate: Certificate) -> str:
    """What a kernel is shipped for, in a word."""
    known = {"fail": "refuted", "unavailable": "not available"}
    return known.get(certificate.expected, "pass")


def nonfinite(finding: Finding | None) -> bool:
    """Whether the output at a finding is NaN or infinite although the truth is finite."""
    if finding is None:
        return False
    return not is_finite(finding.value) and is_finite(finding.truth_hi)


def severity(record: Record) -> tuple[float, ...]:
    """Larger is worse: verdict first, then a lost value, then error over bound.

    Of cases that lose a value none is worse than another; the seed case is the plainest to read.
    """
    lost = nonfinite(record.finding)
    ratio = _plainness(record) if lost else record.tightness
    size = -1.0 if ratio is None or math.isnan(ratio) else ratio
    return (-_PRECEDENCE.index(record.verdict), float(lost), size)


def _plainness(record: Record) -> float:
    """The seed case first, with its three positive scores before any other of its forms."""
    if record.family != SEED_CASE:
        return 0.0
    keys = record.notes.get("n", record.notes.get("n_k", math.inf))
    return 1.0 + (record.notes.get("level", 0.0) > 0) + 1.0 / max(keys, 1.0)


def worst(records: Iterable[Record]) -> Record | None:
    """The worst record; of equals the one whose case comes first."""
    ordered = sorted(records, key=lambda r: (r.case, r.check))
    return max(ordered, key=severity, default=None)


def by_family(certificate: Certificate) -> dict[str, list[Record]]:
    """Records judged against the truth, by family (properties have a section of their own)."""
    found: dict[str, list[Record]] = defaultdict(list)
    for record in certificate.records:
        if not record.check.startswith(PROPERTY):
            found[record.family].append(record)
    return dict(found)


def judged(certificate: Certificate) -> list[Record]:
    """Records in which an error was compared with a bound."""
    decided = (Verdict.PASS, Verdict.FAIL)
    return [
        r
        for r in certificate.records
        if r.verdict in decided and r.tightness is not None and not r.check.startswith(PROPERTY)
    ]


def largest_tightness(certificate: Certificate) -> float | None:
    return max((_number(r.tightness) for r in judged(certificate)), default=None)


def typical_tightness(certificate: Certificate) -> float | None:
    """Median over the cases of the case's median tightness."""
    found = [r.median_tightness for r in judged(certificate) if r.median_tightness is not None]
    return median(found) if found else None


def measures(record: Record) -> Mapping[str, Any]:
    """The error measures of a record's output."""
    inner = record.metrics.get("output")
    return inner if isinstance(inner, Mapping) else record.metrics


def largest_ulps(certificate: Certificate) -> float | None:
    """Largest finite ulp error over all cases."""
    found = [measures(r).get("max_ulp") for r in certificate.records]
    found += [r.finding.ulps for r in certificate.records if r.finding is not None]
    sizes = [float(f) for f in found if f is not None and math.isfinite(float(f))]
    return max(sizes, default=None)


def over_rounding(certificate: Certificate) -> float | None:
    """Largest error over that of correct rounding (1: as good as the format allows)."""
    found = [measures(r).get("over_rounding") for r in certificate.records]
    sizes = [float(f) for f in found if f is not None and math.isfinite(float(f))]
    return max(sizes, default=None)


def lost_values(certificate: Certificate) -> int:
    """Cases whose deciding output is NaN or infinite although the truth is finite."""
    return sum(1 for r in certificate.records if r.verdict is Verdict.FAIL and nonfinite(r.finding))


def suspect(certificate: Certificate) -> int:
    """Cases with an element above the statistical tier's estimate: a mark, never a failure."""
    return sum(1 for r in certificate.records if r.counts.get("suspect", 0))


def run(certificate: Certificate) -> int:
    return len(certificate.records)


def missing(certificate: Certificate) -> int:
    """Planned cases that were neither run nor skipped with a reason."""
    return certificate.planned - run(certificate) - len(certificate.skipped)


def bound_in_ulps(finding: Finding, format_name: str) -> float | None:
    """The bound at a finding, counted in ulps of the truth there."""
    fmt = FORMATS.get(format_name)
    if fmt is None or finding.bound is None or not is_finite(finding.truth_hi):
        return None
    import numpy as np

    return finding.bound / float(fmt.ulp(np.asarray(as_float(finding.truth_hi))))


def reasons_skipped(certificates: Sequence[Certificate]) -> dict[str, Counter[tuple[str, str]]]:
    """For each reason, how many cases of which (kernel and format, family)."""
    found: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for certificate in certificates:
        for skipped in certificate.skipped:
            found[skipped.reason][title(certificate), skipped.family] += 1
    return dict(found)


def _number(value: float | None) -> float:
    return -math.inf if value is None or math.isnan(value) else value
