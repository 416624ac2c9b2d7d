"""Terminal: progress and summary as text; plain lines where nobody looks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from verify.backing import NONE
from verify.campaign import Campaign, file_stem
from verify.certificate import Certificate, Record, plain, waived_cases
from verify.evidence import IN_WORKER
from verify.formats import FORMATS
from verify.judge import Verdict
from verify.presets import FLUSHING

MARKS = {
    Verdict.PASS: "certified",
    Verdict.FAIL: "REFUTED",
    Verdict.ERROR: "ERROR",
    Verdict.INTEGRITY: "TAMPERED",
    Verdict.INCONCLUSIVE: "INCONCLUSIVE",
    Verdict.OUT_OF_SCOPE: "NOT CERTIFIABLE",
}
COLOURS = {
    Verdict.PASS: "green",
    Verdict.FAIL: "red",
    Verdict.ERROR: "red",
    Verdict.INTEGRITY: "red",
}


class Terminal:
    """Shows a run: a progress bar on a terminal, one line per certificate elsewhere.

    With `as_json` nothing but one JSON document goes to stdout, and progress to stderr.
    """

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        from rich.console import Console

        self.as_json = as_json
        self.quiet = quiet
        self.out = Console(soft_wrap=True, highlight=False)
        self.err = Console(stderr=True, soft_wrap=True, highlight=False)
        self._bar: Any = None
        self._task: Any = None

    def starting(self, campaign: Campaign) -> None:
        kernel = campaign.kernel
        backward = " backward" if kernel.direction == "backward" else ""
        name = f"{kernel.name}{backward} {campaign.format.name} {campaign.device}"
        if campaign.commitment is not None:
            self.err.print(f"{name}: committed to seed {campaign.commitment}", markup=False)
        self.counting(name)

    def counting(self, name: str) -> None:
        """Show a bar for something that is counted, where somebody looks."""
        if self.quiet or not self.err.is_terminal:
            return
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self._bar = Progress(
            *columns, TextColumn("{task.fields[note]}"), console=self.err, transient=True
        )
        self._bar.start()
        self._task = self._bar.add_task(name, total=None, note="")

    def progress(self, done: int, total: int, record: Record) -> None:
        if self._bar is None:
            return
        note = {} if record.verdict is Verdict.PASS else {"note": f"{record.verdict} {record.case}"}
        self._bar.update(self._task, completed=done, total=total, **note)

    def counted(self, done: int, total: int, note: str) -> None:
        """One more thing is done."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, note=note)

    def finished(self, certificate: Certificate) -> None:
        self.stop()
        if not self.as_json and not self.quiet:
            self.out.print(line(certificate), style=COLOURS.get(certificate.verdict))

    def stop(self) -> None:
        """End a progress bar that is still shown."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def summary(self, certificates: list[Certificate], folder: Path) -> None:
        """The refutations in full, and where the certificates lie."""
        if self.as_json:
            json.dump([summary(c, folder) for c in certificates], sys.stdout, indent=1)
            sys.stdout.write("\n")
            return
        for certificate in certificates:
            for text in explanations(certificate, folder):
                self.out.print(text, markup=False)
        if certificates and not any(c.selftest for c in certificates):
            self.out.print(NONE, markup=False)
        self.out.print(f"certificates: {folder}    next: attncert report {folder}", markup=False)


def line(certificate: Certificate) -> str:
    """One line: what was certified, how well, on how many cases."""
    counts = certificate.counts()
    run = ", ".join(f"{n} {name}" for name, n in counts.items() if n)
    grade = f"grade {certificate.grade.letter}" if certificate.grade else "no grade"
    way = (certificate.evidence or {}).get("way", IN_WORKER)
    told = "" if way == IN_WORKER else f"; evidence: {way}"
    waived = len(waived_cases(certificate.waivers))
    told += f"; {waived} waived" if waived else ""
    return (
        f"{MARKS[certificate.verdict]:<15} {certificate.name:<44} "
        f"model {certificate.model['name']}, {grade}, tightness {tightness(certificate)}; "
        f"{run or 'no case was run'}; {len(certificate.skipped)} skipped{told}"
    )


def tightness(certificate: Certificate) -> str:
    """Median over cases of the median error / bound, and the largest."""
    medians = sorted(
        r.median_tightness for r in certificate.records if r.median_tightness is not None
    )
    largest = max(
        (r.tightness for r in certificate.records if r.tightness is not None), default=None
    )
    if not medians or largest is None:
        return "unknown"
    return f"median {medians[len(medians) // 2]:.2g}, largest {largest:.2g}"


def explanations(certificate: Certificate, folder: Path) -> list[str]:
    """For each kind of failure: the family, value, truth, error, bound and how to reproduce it."""
    texts: list[str] = []
    seen: set[tuple[str, str]] = set()
    for record in certificate.records:
        if record.verdict in (Verdict.PASS, Verdict.OUT_OF_SCOPE):
            continue
        key = (record.verdict.value, record.family)
        if key in seen:
            continue
        seen.add(key)
        if len(texts) == 5:
            more = sum(
                r.verdict not in (Verdict.PASS, Verdict.OUT_OF_SCOPE) for r in certificate.records
            )
            texts.append(f"... {more} such cases in all; see the report")
            break
        texts.append(explain(record, certificate, folder))
    return texts


def explain(record: Record, certificate: Certificate, folder: Path) -> str:
    """One case in full."""
    lines = [described(record, certificate.name)]
    for waiver in certificate.waivers:
        if record.case in waiver["cases"]:
            told = f"{waiver['reason']} ({waiver['owner']}, until {waiver['expires']})"
            lines.append(f"  waived    {told}")
    return "\n".join([*lines, f"  again     {again(record, certificate, folder)}"])


def described(record: Record, name: str) -> str:
    """What was found in one case of the kernel called `name`."""
    lines = [
        "",
        f"{record.verdict}  {name}  family {record.family}",
        f"  case      {record.case}",
        f"  why       {record.reason}",
    ]
    f = record.finding
    if f is not None:
        lines += [
            f"  element   {f.output}{list(f.index)}",
            f"  value     {f.value}   {f.value_hex}   bits {f.value_bits}",
            f"  truth     {f.truth}   {f.truth_hi} + {f.truth_lo}",
        ]
        if f.error is not None:
            lines.append(f"  error     {number(f.error)}   {number(f.ulps)} ulp")
        by = f"   dominated by {f.stage}" if f.stage else ""
        lines.append(f"  bound     {number(f.bound)}{by}")
    if "repeated" in record.metrics:
        lines.append(f"  repeated  a second call gave {record.metrics['repeated']}")
    if _zero_for_little(record):
        lines.append(
            f"  hint      hardware that flushes subnormals to zero? --model NAME{FLUSHING}"
        )
    return "\n".join(lines)


def _zero_for_little(record: Record) -> bool:
    """Whether the output is 0 where the truth is subnormal, or about as small, in its format."""
    found, format_name = record.finding, record.case.split("/")[1]
    if found is None or format_name not in FORMATS or float(found.value) != 0:
        return False
    size = abs(float.fromhex(found.truth_hi))
    return 0 < size < 2**8 * FORMATS[format_name].smallest_normal


def again(record: Record, certificate: Certificate, folder: Path) -> str:
    """The command that shows the case again."""
    if certificate.isolation == "computed elsewhere":
        return certificate.command
    stem = _stem(certificate)
    return f"attncert reproduce '{folder / (stem + '.json')}#{record.case}'"


def _stem(certificate: Certificate) -> str:
    kernel = certificate.kernel
    return file_stem(
        kernel["name"], certificate.format, certificate.device, str(kernel["operation"])
    )


def number(value: float | None) -> str:
    """A number in decimal and as a C99 hex float."""
    if value is None:
        return "not a number"
    return f"{value:.6g} ({float(value).hex()})"


def summary(certificate: Certificate, folder: Path) -> dict[str, Any]:
    """What a script wants to know of a certificate."""
    stem = _stem(certificate)
    failing = [r for r in certificate.records if r.verdict is not Verdict.PASS]
    return dict(
        plain(
            {
                "kernel": certificate.kernel["name"],
                "direction": certificate.direction,
                "format": certificate.format,
                "device": certificate.device,
                "verdict": certificate.verdict.value,
                "exit_status": certificate.exit_status,
                "grade": certificate.grade.letter if certificate.grade else None,
                "model": certificate.model["name"],
                "counts": certificate.counts(),
                "planned": certificate.planned,
                "skipped": len(certificate.skipped),
                "not_passed": [[r.case, r.verdict.value, r.reason] for r in failing],
                "waived": sorted(waived_cases(certificate.waivers)),
                "certificate": str(folder / f"{stem}.json"),
            }
        )
    )
