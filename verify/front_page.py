"""Front page: the table that compares all published reports, made from their summary.json files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verify.errors import UsageError

BEGIN = "<!-- what follows is made by `attncert front-page`; do not edit it -->"
END = "<!-- end of what is made -->"
OURS = ("textbook-", "triton-flash")  # kernels that this project wrote itself
FORMATS = ("fp16", "bf16", "fp32")
UNAVAILABLE = "not available"

Entry = dict[str, Any]  # of a summary.json, see `verify.report.summary_json.entry`


@dataclass(frozen=True)
class Line:
    """One kernel on one device in one report, with its entries by format."""

    report: str
    kernel: str
    operation: str
    device: str
    profile: str
    entries: dict[str, Entry]

    @property
    def ran(self) -> bool:
        return any(e["counts"] for e in self.entries.values() if e["expected"] != "unavailable")

    @property
    def worst(self) -> Entry:
        """The refuted entry, else the tightest."""
        return max(self.entries.values(), key=lambda e: (refuted(e), _number(e)))


def refuted(entry: Entry) -> bool:
    return bool(entry["counts"].get("FAIL"))


def lines(folder: Path) -> list[Line]:
    """All kernels of all reports below a folder, by operation, report and name.

    Raises      UsageError where there is no report, or one that cannot be read.
    """
    found: dict[tuple[str, ...], dict[str, Entry]] = {}
    paths = sorted(folder.glob("*/summary.json"))
    if not paths:
        raise UsageError(f"no report with a summary.json in {folder}; `attncert publish` makes one")
    for path in paths:
        for entry in _read(path):
            key = tuple(str(entry[k]) for k in ("operation", "kernel", "device", "profile"))
            found.setdefault((path.parent.name, *key), {})[entry["format"]] = entry
    made = [
        Line(report, kernel, operation, device, profile, entries)
        for (report, operation, kernel, device, profile), entries in found.items()
    ]
    return sorted(made, key=lambda x: (x.operation, x.report, x.kernel, x.device))


def _read(path: Path) -> list[Entry]:
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        return [dict(e, counts=dict(e["counts"])) for e in entries]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is no summary of a report: {error}") from None


def page(text: str, folder: Path) -> str:
    """A page with what lies between the two marks made anew; marks are added where none are."""
    made = f"{BEGIN}\n\n{comparison(folder)}\n{END}"
    pattern = re.compile(re.escape(BEGIN) + ".*" + re.escape(END), re.DOTALL)
    if pattern.search(text):
        return pattern.sub(lambda _: made, text)
    return f"{text.rstrip()}\n\n{made}\n"


def comparison(folder: Path) -> str:
    """The tables, what was refuted and why, and what could not run, as Markdown."""
    every = lines(folder)
    ran = [x for x in every if x.ran]
    parts = [_counted(ran)]
    for operation in dict.fromkeys(x.operation for x in ran):
        parts.append(_table(operation, [x for x in ran if x.operation == operation]))
    parts.append(_refuted(ran, folder))
    idle = sorted({x.kernel for x in every if not x.ran} - {x.kernel for x in ran})
    if idle:
        parts.append(f"Listed, but not available where these reports were made: {', '.join(idle)}.")
    return "\n\n".join(parts) + "\n"


def _counted(ran: Sequence[Line]) -> str:
    others = {x.kernel: x for x in ran if not x.kernel.startswith(OURS)}
    forward = sum(x.operation == "attention" for x in others.values())
    reports = {x.report for x in others.values()}
    own = ", ".join(f"{name}*" if name.endswith("-") else name for name in OURS)
    return (
        f"{len(others)} implementations that this project did not write, {forward} of them of "
        f"attention, in {len(reports)} reports ({own} are its own). A cell holds the grade and the "
        "largest error as a share of the bound; **refuted** means that the declared arithmetic or "
        "semantics is contradicted, with the reason below."
    )


def _table(operation: str, rows: Sequence[Line]) -> str:
    head = ["kernel", "report", *FORMATS, "worst case"]
    text = [f"### {operation.replace('_', ' ')}", "", _row(head), _row(["---"] * len(head))]
    for x in rows:
        cells = [_cell(x.entries.get(name)) for name in FORMATS]
        profile = "" if x.profile == "standard" else f" ({x.profile} profile)"
        device = "" if x.device == "cpu" else f" on {x.device}"
        report = f"[{x.report}]({x.report}/report.md){device}{profile}"
        case = x.worst["worst case"]
        text.append(_row([x.kernel, report, *cells, f"`{case}`" if case else "see the report"]))
    return "\n".join(text)


def _cell(entry: Entry | None) -> str:
    if entry is None or entry["expected"] == "unavailable":
        return "—"
    if refuted(entry):
        return "**refuted**"
    ratio = entry["worst tightness"]
    size = f"{ratio:.2g}" if isinstance(ratio, float) else str(ratio)
    word = "" if entry["counts"].keys() <= {"PASS", "OUT_OF_SCOPE"} else f", {entry['verdict']}"
    return f"{entry['grade']} {size}{word}"


def _refuted(ran: Sequence[Line], folder: Path) -> str:
    text = ["### What is refuted, and why", ""]
    for x in ran:
        for name in FORMATS:
            entry = x.entries.get(name)
            if entry is None or not refuted(entry):
                continue
            where = f"(`{entry['worst case']}`)"
            links = [f"[finding](findings/{f.name})" for f in _findings(x.kernel, folder)]
            told = f"- **{x.kernel} {name}**: {entry['reason']}"
            text.append(" ".join([told, where, *links]))
    return "\n".join(text if len(text) > 2 else [*text, "Nothing."])


def _findings(kernel: str, folder: Path) -> Iterable[Path]:
    """Findings that name the kernel in backticks."""
    return [f for f in sorted(folder.glob("findings/*.md")) if f"`{kernel}`" in f.read_text()]


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _number(entry: Entry) -> float:
    value = entry["worst tightness"]
    return -1.0 if value is None else float(value)
