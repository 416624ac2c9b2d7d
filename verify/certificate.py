"""Certificate: the record from which one verdict can be rechecked. Plain data, with a schema.

One certificate speaks of one kernel in one format on one device.  It holds a `Record` for every
case that was run, the cases that were not and why, and the environment; nothing else is needed for
a report, and nothing in a report comes from elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from verify.errors import CertificateError, UsageError
from verify.evidence import WAYS
from verify.judge import Verdict, worst
from verify.operation import Direction, direction_of

SCHEMA_VERSION = 1

# What a waiver can take out of the exit status; a failed integrity check is none of it.
WAIVABLE = (Verdict.FAIL, Verdict.ERROR, Verdict.INCONCLUSIVE)
STUDY_SUFFIX = ".study.json"  # what `attncert study` leaves beside certificates
# How the names of files beside certificates end that are none (a report writes summary.json).
OTHER_SUFFIXES = (STUDY_SUFFIX, ".bench.json")
OTHER_NAMES = ("summary.json",)

# Fields that hold numbers, and so may hold the strings 'inf', '-inf' and 'nan' in JSON.
RECORD_NUMBERS = ("scores", "tightness", "median_tightness", "metrics", "grades", "stages", "notes")
FINDING_NUMBERS = ("truth_radius", "error", "bound", "ulps")


@dataclass(frozen=True)
class Finding:
    """The deciding (else the tightest) element of one case.

    output     'output' or 'lse'; index: its position
    value      what the kernel returned, its bits in hex, and as a C99 hex float
    truth      the exact result to 30 digits (its enclosure: truth_hi + truth_lo +- truth_radius)
    error      upper end of |value - truth|; bound: the proved limit; ulps: error in ulp(truth)
    stage      the stage that dominates the bound there
    """

    output: str
    index: tuple[int, ...]
    value: str
    value_bits: str
    value_hex: str
    truth: str
    truth_hi: str
    truth_lo: str
    truth_radius: float | None
    error: float | None
    bound: float | None
    ulps: float | None
    stage: str | None


@dataclass(frozen=True)
class Record:
    """One case, judged.

    check      which check decided: 'bound', 'finite', 'class', or 'property:<name>'
    scores     (smallest, largest) finite score of the case
    tightness  largest observed error / bound; grades: the same under each reference contract
    counts     elements, judged, failed, inconclusive, flagged, unspecified, vacuous, suspect
    stages     share of each stage in the bound, at the finding
    sample     (value, truth) of every element, where the output has few
    """

    case: str
    family: str
    verdict: Verdict
    reason: str
    check: str
    operation: Mapping[str, Any]
    notes: Mapping[str, float]
    shape: Mapping[str, tuple[int, ...]]
    digest: str
    scores: tuple[float, float] | None = None
    tightness: float | None = None
    median_tightness: float | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    grades: Mapping[str, float | None] = field(default_factory=dict)
    stages: Mapping[str, float] = field(default_factory=dict)
    finding: Finding | None = None
    sample: tuple[tuple[str, str], ...] = ()
    tier: str = ""
    seconds: float = 0.0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        values = _numbers(_known(cls, data), RECORD_NUMBERS)
        values["verdict"] = Verdict(values["verdict"])
        if values.get("finding") is not None:
            found = _numbers(_known(Finding, values["finding"]), FINDING_NUMBERS)
            values["finding"] = Finding(**{**found, "index": tuple(found["index"])})
        values["sample"] = tuple((a, b) for a, b in values.get("sample", ()))
        if values.get("scores") is not None:
            values["scores"] = tuple(values["scores"])
        return cls(**values)


@dataclass(frozen=True)
class Skipped:
    """A planned case that was not run, and why."""

    case: str
    family: str
    reason: str


@dataclass(frozen=True)
class Grade:
    """The tightest reference contract that no case refutes, and what refuted the one above."""

    letter: str
    meaning: str
    limited_by: str | None = None


@dataclass(frozen=True)
class Certificate:
    """Everything that is known about one kernel in one format on one device.

    kernel        name, operation, features, declaration, identity (file, SHA-256, package)
    model         the declared preset: name, meaning, and its variants as plain data
    planned       number of cases planned; executed + skipped = planned, or the verdict says
                  INCONCLUSIVE
    throughput    timings as `verify.bench.timing.Timing.to_json` gives them
    selftest      summary of the selftest that backs the judge, or None
    evidence      by which way the outputs came, and what that way cannot prove; None in
                  certificates of before it was recorded
    waivers       what `verify.waivers.applied` says of each waiver; they change no verdict
    commitment    hash of a seed that was drawn after the kernel was loaded, told before it ran
    exit_status   what `attncert certify` ends with for this certificate
    """

    kernel: Mapping[str, Any]
    format: str
    device: str
    profile: str
    seed: int
    model: Mapping[str, Any]
    verdict: Verdict
    exit_status: int
    grade: Grade | None
    planned: int
    records: tuple[Record, ...]
    skipped: tuple[Skipped, ...]
    environment: Mapping[str, Any]
    oracle: Mapping[str, Any]
    created: str
    seconds: float
    command: str
    isolation: str = "worker process"
    evidence: Mapping[str, Any] | None = None
    expected: str = "pass"
    selftest: Mapping[str, Any] | None = None
    commitment: str | None = None
    waivers: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    throughput: tuple[Mapping[str, Any], ...] = ()
    schema: int = SCHEMA_VERSION

    @property
    def direction(self) -> Direction:
        """What it speaks of: a forward certificate never vouches for a gradient."""
        return direction_of(str(self.kernel["operation"]))

    @property
    def name(self) -> str:
        backward = " backward" if self.direction == "backward" else ""
        return f"{self.kernel['name']}{backward} {self.format} {self.device}"

    def counts(self) -> dict[str, int]:
        """Records per verdict."""
        found = dict.fromkeys((v.value for v in Verdict), 0)
        for record in self.records:
            found[record.verdict.value] += 1
        return found

    def to_json(self) -> dict[str, Any]:
        return dict(plain(asdict(self)))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Certificate:
        """Read plain data back. Raises CertificateError naming what is wrong."""
        check_schema(data)
        values = _known(cls, data)
        values["verdict"] = Verdict(values["verdict"])
        values["grade"] = Grade(**values["grade"]) if values["grade"] else None
        values["records"] = tuple(Record.from_json(r) for r in values["records"])
        values["skipped"] = tuple(Skipped(**_known(Skipped, s)) for s in values["skipped"])
        values["warnings"] = tuple(values.get("warnings", ()))
        values["waivers"] = tuple(values.get("waivers", ()))
        values["throughput"] = tuple(values.get("throughput", ()))
        return cls(**values)


def exit_status(
    verdict: Verdict,
    records: tuple[Record, ...],
    waivers: tuple[Mapping[str, Any], ...] = (),
    missing: bool = False,
) -> int:
    """0 certified, 1 wrong numerics, 3 integrity, 4 inconclusive, 5 the kernel is unusable.

    A case that is waived does not count; `missing`: planned cases were not accounted for.
    """
    waived = waived_cases(waivers)
    if waived:
        kept = tuple(r for r in records if r.case not in waived or r.verdict not in WAIVABLE)
        rest = worst((*(r.verdict for r in kept), *([Verdict.INCONCLUSIVE] if missing else [])))
        return exit_status(rest, kept) if kept else 4
    if verdict is Verdict.ERROR and not any(r.verdict is Verdict.PASS for r in records):
        return 5
    return {
        Verdict.INTEGRITY: 3,
        Verdict.FAIL: 1,
        Verdict.ERROR: 1,
        Verdict.INCONCLUSIVE: 4,
        Verdict.OUT_OF_SCOPE: 4,
        Verdict.PASS: 0,
    }[verdict]


def waived_cases(waivers: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """The cases that some waiver in use covers."""
    return frozenset(case for waiver in waivers for case in waiver["cases"])


def overall(records: tuple[Record, ...], planned: int, skipped: int) -> Verdict:
    """The worst verdict of the records; at best INCONCLUSIVE where planned cases are missing."""
    verdict = worst(r.verdict for r in records)
    if len(records) + skipped != planned:
        verdict = worst((verdict, Verdict.INCONCLUSIVE))
    return verdict


def recheck(certificate: Certificate) -> list[str]:
    """What does not agree inside a certificate: verdicts against errors, bounds and counts."""
    wrong = []
    for r in certificate.records:
        f = r.finding
        if r.verdict is Verdict.PASS and r.counts.get("failed", 0):
            wrong.append(f"{r.case}: PASS with {r.counts['failed']} failed elements")
        if f is None or f.error is None or f.bound is None:
            continue
        if r.verdict is Verdict.PASS and not f.error <= f.bound:
            wrong.append(f"{r.case}: PASS with error {f.error:g} above the bound {f.bound:g}")
        if r.verdict is Verdict.FAIL and r.check == "bound" and not f.error > f.bound:
            wrong.append(f"{r.case}: FAIL with error {f.error:g} within the bound {f.bound:g}")
    accounted = len(certificate.records) + len(certificate.skipped)
    if certificate.evidence and (
        WAYS[certificate.evidence["way"]].isolation != certificate.isolation
    ):
        wrong.append("the way of the evidence and the isolation contradict each other")
    if certificate.commitment not in (None, commitment(certificate.seed)):
        wrong.append("the seed is not the one that was committed to")
    if accounted != certificate.planned:
        wrong.append(f"{certificate.planned} cases planned, {accounted} accounted for")
    verdict = overall(certificate.records, certificate.planned, len(certificate.skipped))
    if verdict is not certificate.verdict:
        wrong.append(f"the verdict is {certificate.verdict}, its records say {verdict}")
    told = (verdict, certificate.records, certificate.waivers, accounted != certificate.planned)
    if certificate.exit_status != exit_status(*told):
        wrong.append(f"the exit status {certificate.exit_status} does not follow from the verdict")
    return wrong


def commitment(seed: int) -> str:
    """The hash that binds to a seed of 128 bits without telling it."""
    return hashlib.sha256(f"attncert seed {seed}".encode()).hexdigest()


def write(certificate: Certificate, path: Path) -> None:
    """Write a certificate whole or not at all."""
    text = json.dumps(certificate.to_json(), indent=1, allow_nan=False) + "\n"
    write_atomically(path, text)


def write_atomically(path: Path, text: str) -> None:
    """Write to a temporary file beside the target, then rename it there."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read(path: Path) -> Certificate:
    """Read a certificate. Raises CertificateError for a file that is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CertificateError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise CertificateError(f"{path} is not JSON: {error}") from None
    try:
        return Certificate.from_json(data)
    except CertificateError as error:
        raise CertificateError(f"{path}: {error}") from None


@cache
def schema() -> dict[str, Any]:
    """The published JSON Schema of certificates."""
    text = resources.files("verify").joinpath("certificate.schema.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def check_schema(data: Any) -> None:
    """Raises CertificateError with the first violation of the schema."""
    import jsonschema

    if isinstance(data, dict) and data.get("schema") not in (None, SCHEMA_VERSION):
        raise CertificateError(
            f"certificate schema {data.get('schema')!r} is not {SCHEMA_VERSION}: "
            "it was made by another version of attncert"
        )
    validator = jsonschema.Draft202012Validator(schema())
    error = jsonschema.exceptions.best_match(validator.iter_errors(data))
    if error is not None:
        raise CertificateError(f"not a certificate: {error.json_path}: {error.message[:200]}")


def _known(kind: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    names = {f.name for f in fields(kind)}
    unknown = sorted(set(data) - names)
    if unknown:
        raise CertificateError(f"unknown field {unknown[0]!r} in a {kind.__name__.lower()}")
    return dict(data)


def _numbers(values: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {k: _unplain(v) if k in names else v for k, v in values.items()}


def _unplain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _unplain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_unplain(v) for v in value]
    return float(value) if value in ("inf", "-inf", "nan") else value


def plain(value: Any) -> Any:
    """JSON has no infinities and no NaN: they become the strings 'inf', '-inf' and 'nan'."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float) and value != value:
        return "nan"
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    return value


def _is_other(name: str) -> bool:
    return name[0] == "." or name in OTHER_NAMES or name.endswith(OTHER_SUFFIXES)


def certificate_files(sources: tuple[Path, ...]) -> list[Path]:
    """The certificates among files and folders (`*.json`; no dot-files, studies, timings).

    Raises      UsageError where there is none.
    """
    files: list[Path] = []
    for source in sources:
        found = sorted(source.glob("*.json")) if source.is_dir() else [source]
        files += [f for f in found if not _is_other(f.name)]
    if not files:
        raise UsageError(f"no certificate (*.json) in {', '.join(map(str, sources))}")
    return files
