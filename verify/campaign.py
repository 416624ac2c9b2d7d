"""Campaign: a plan of cases, executed against one kernel, journalled as it goes, then certified.

Every record is appended to the journal (JSON lines) the moment it exists, so an interrupted run
resumes where it stopped, and planned = executed + skipped can be checked afterwards.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import verify
from verify import backing, evidence, families, grades, properties
from verify.calling import Bench
from verify.case import Case, Plan, Profile
from verify.certificate import (
    Certificate,
    Grade,
    Record,
    Skipped,
    exit_status,
    overall,
    write,
)
from verify.errors import KernelError, UsageError
from verify.formats import Format
from verify.journal import Journal
from verify.judge import Verdict
from verify.kernel import Kernel
from verify.operation import direction_of
from verify.pipeline import examine
from verify.properties import Trial, refusals, try_all
from verify.sources import Guard
from verify.waivers import Waiver, applied
from verify.worker import Worker

Progress = Callable[[int, int, Record], None]


@dataclass(frozen=True)
class Campaign:
    """What to run: one kernel in one format on one device.

    only      the families to run (None: all)
    command   the command line that asked for it, for the certificate
    commitment   the hash of a blind seed, told before the kernel was called
    waivers   what is waived for this kernel
    way       by which way the outputs come, a key of `verify.evidence.WAYS`
    """

    kernel: Kernel
    format: Format
    device: str = "cpu"
    profile: Profile = "standard"
    seed: int = 0
    only: tuple[str, ...] | None = None
    command: str = ""
    warnings: tuple[str, ...] = ()
    resume: bool = False
    way: str = evidence.IN_WORKER
    waivers: tuple[Waiver, ...] = ()
    commitment: str | None = None

    @property
    def stem(self) -> str:
        """File name without an ending, unique per kernel, format and device."""
        return file_stem(self.kernel.name, self.format.name, self.device, self.kernel.operation)

    def trial(self, bench: Bench) -> Trial:
        """What the properties are tried on."""
        plan = Plan(self.kernel.operation, self.format, self.profile, self.seed)
        return Trial(self.kernel, self.format, bench, plan)

    def identity(self) -> str:
        """What must be equal for a journal to be continued."""
        parts = {
            "version": verify.__version__,
            "judge": backing.digest(self.device),
            "kernel": self.kernel.name,
            "operation": self.kernel.operation,
            "code": self.kernel.identity.get("sha256"),
            "declaration": self.kernel.declaration.to_json(),
            "environment": dict(self.kernel.environment),
            "format": self.format.name,
            "device": self.device,
            "profile": self.profile,
            "seed": self.seed,
            "only": self.only,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def file_stem(kernel: str, fmt: str, device: str, operation: str = "") -> str:
    """A file name for a kernel: letters, digits, dots and dashes only, still unique; that of a
    gradient says so."""
    plain = "".join(c if c.isalnum() or c in "._-" else "-" for c in Path(kernel).name).strip("-")
    tag = "" if plain == kernel else "-" + hashlib.sha256(kernel.encode()).hexdigest()[:6]
    backward = "-backward" if direction_of(operation) == "backward" else ""
    return f"{plain}{tag}{backward}-{fmt}-{device}"


def planned_cases(campaign: Campaign) -> tuple[list[Case], list[Skipped]]:
    """The cases that the kernel claims, and those that are left out, with the reason."""
    plan = Plan(campaign.kernel.operation, campaign.format, campaign.profile, campaign.seed)
    cases: list[Case] = []
    skipped: list[Skipped] = []
    for name in families.names() if campaign.only is None else campaign.only:
        family = families.family(name)
        reason = family.unavailable() if family.unavailable else None
        if reason is not None:
            skipped.append(Skipped(name, name, reason))
            continue
        for case in family.cases(plan):
            why = campaign.kernel.out_of_scope(case)
            if why is None:
                cases.append(case)
            else:
                skipped.append(Skipped(case.id, name, why))
    return cases, skipped


def execute(
    campaign: Campaign,
    bench: Bench,
    folder: Path | None,
    progress: Progress | None = None,
    guard: Guard | None = None,
) -> Certificate:
    """Run a campaign; with a folder, journal it there, and certify it.

    guard       the judge's files as they were before the kernel was loaded
    Special     a campaign without a case gives an INCONCLUSIVE certificate.
    Raises      IntegrityError where somebody changed the judge's files, or the journal.
    """
    started = time.perf_counter()
    guard = guard or Guard()
    cases, skipped = planned_cases(campaign)
    path = folder / f"{campaign.stem}.jsonl" if folder else None
    journal = Journal(path, campaign.identity(), resume=campaign.resume) if path else None
    done = journal.records() if journal else {}
    refused = refusals(campaign.kernel) if campaign.only is None else {}
    asked = [n for n in properties.names() if n not in refused] if campaign.only is None else []
    total = len(cases) + len(asked)
    records: list[Record] = []
    for number, case in enumerate(cases, 1):
        record = done.get(case.id)
        if record is None:
            record = examine(case, campaign.kernel, bench)
            if journal:
                journal.append(record)
        records.append(record)
        if progress:
            progress(number, total, record)
    structural: list[Record] = []
    for number, found in enumerate(_tried(asked, campaign.trial(bench), journal), len(cases) + 1):
        structural += found
        if progress and found:
            progress(number, total, min(found, key=_precedence))
    skipped += [Skipped(n, n, f"property: {why}") for n, why in refused.items()]
    planned = len(cases) + len(skipped) + len(structural)
    seconds = time.perf_counter() - started
    everything = (*records, *structural)
    guard.require_unchanged(campaign.kernel.name)
    if journal:
        journal.require_untouched(campaign.kernel.name)
    certificate = certify(campaign, everything, tuple(skipped), planned, bench, seconds)
    if folder:
        write(certificate, folder / f"{campaign.stem}.json")
    return certificate


def _tried(
    asked: Iterable[str], trial: Trial, journal: Journal | None
) -> Iterator[tuple[Record, ...]]:
    """The records of one property after the other, those of an earlier run first."""
    done = journal.properties() if journal else {}
    for name in asked:
        found = done.get(name)
        if found is None:
            found = tuple(try_all(trial, (name,)))
            if journal:
                journal.append_property(name, found)
        yield found


def _precedence(record: Record) -> int:
    return list(Verdict).index(record.verdict)


def certify(
    campaign: Campaign,
    records: tuple[Record, ...],
    skipped: tuple[Skipped, ...],
    planned: int,
    bench: Bench,
    seconds: float,
) -> Certificate:
    """Draw up the certificate of what was run, out of `planned` cases."""
    verdict = overall(records, planned, len(skipped))
    waived = applied(campaign.waivers, records)
    missing = len(records) + len(skipped) != planned
    kernel = campaign.kernel
    models = kernel.models(campaign.format)
    return Certificate(
        kernel={
            "name": kernel.name,
            "operation": kernel.operation,
            "features": sorted(kernel.features),
            "declaration": kernel.declaration.to_json(),
            "identity": dict(kernel.identity),
            "summary": kernel.summary,
            **_known(kernel, campaign.format),
        },
        format=campaign.format.name,
        device=campaign.device,
        profile=campaign.profile,
        seed=campaign.seed,
        model={
            "name": models.name,
            "meaning": models.meaning,
            "variants": [m.to_json() for m in models.variants],
        },
        verdict=verdict,
        exit_status=exit_status(verdict, records, waived, missing),
        grade=overall_grade(campaign.format, records),
        planned=planned,
        records=records,
        skipped=skipped,
        environment={**environment(kernel), "libraries": _libraries(bench)},
        oracle={"tier": bench.oracle.route, "audited_rows": bench.oracle.audits},
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=round(seconds, 2),
        command=campaign.command,
        isolation=evidence.WAYS[campaign.way].isolation,
        evidence=evidence.statement(campaign.way),
        expected="unavailable" if kernel.unavailable else kernel.expected_in(campaign.format),
        selftest=backing.summary(),
        commitment=campaign.commitment,
        waivers=waived,
        warnings=campaign.warnings,
    )


def _known(kernel: Kernel, fmt: Format) -> dict[str, str]:
    """Why the kernel is known to be refuted in a format, where it is."""
    return {"refuted": kernel.refuted[fmt.name]} if fmt.name in kernel.refuted else {}


def overall_grade(fmt: Format, records: Iterable[Record]) -> Grade | None:
    """The first reference contract that no record refutes, and the case that refuted the last one.

    A record whose output failed by its class (NaN where the truth is finite) refutes them all.
    """
    graded = [r for r in records if r.grades or r.verdict in (Verdict.FAIL, Verdict.ERROR)]
    if not graded:
        return None
    limited_by: str | None = None
    for contract in grades.contracts(fmt):
        refuting = next((r for r in graded if _refutes(r, contract.letter)), None)
        if refuting is None:
            return Grade(contract.letter, contract.meaning, limited_by)
        limited_by = refuting.case
    return Grade("U", grades.UNGRADED, limited_by)


def _refutes(record: Record, letter: str) -> bool:
    if record.verdict is Verdict.ERROR or (
        record.verdict is Verdict.FAIL and record.check != "bound"
    ):
        return True
    ratio = record.grades.get(letter)
    return ratio is not None and not ratio <= 1.0


def environment(kernel: Kernel) -> dict[str, Any]:
    """Versions of both processes, and the machine."""
    import mpmath
    import numpy as np

    return {
        "attncert": verify.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "mpmath": mpmath.__version__,
        "machine": platform.machine(),
        "system": platform.system(),
        "worker": dict(kernel.environment),
    }


def _libraries(bench: Bench) -> list[str]:
    """What the kernel's process has loaded; empty where it is not ours, or does not answer."""
    if not isinstance(bench.runner, Worker):
        return []
    try:
        return bench.runner.libraries()
    except KernelError:
        return []


def prepare_folder(folder: Path) -> Path:
    """Make the output folder. Raises UsageError where it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".attncert-probe"
        probe.write_text("", encoding="utf-8")
        probe.unlink()
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from None
    return folder


def command_line() -> str:
    """The command that is running, as a user would type it."""
    return " ".join(["attncert", *sys.argv[1:]])
