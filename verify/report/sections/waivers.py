"""What was waived: by whom, why, until when, and which cases. A waiver changes no verdict."""

from __future__ import annotations

from collections.abc import Sequence

from verify.certificate import Certificate
from verify.report import facts
from verify.report.markdown import escape
from verify.report.section import Section
from verify.report.table import Cell, Column, table
from verify.report.template import render

TEMPLATE = """
<p>A waiver changes no verdict: the cases below stay refuted. It only takes them out of the exit
status, until the day on which it ends.</p>
{{ waivers }}
"""
COLUMNS = ("Kernel and format", "Waiver", "State", "Reason", "Owner", "Until", "Cases")


def rows(certificates: Sequence[Certificate]) -> list[list[str]]:
    """One row for each waiver of each certificate."""
    return [
        [
            title,
            f"case {w['case']}" if w["case"] else f"family {w['family']}",
            w["state"],
            w["reason"],
            w["owner"],
            w["expires"],
            ", ".join(w["cases"]) or "none",
        ]
        for title, c in zip(facts.titles(certificates), certificates, strict=True)
        for w in c.waivers
    ]


def _html(certificates: Sequence[Certificate]) -> str:
    found = rows(certificates)
    if not found:
        return ""
    cells = [[Cell(row[0], heads_row=True), *map(Cell, row[1:])] for row in found]
    return render(TEMPLATE, waivers=table("Waivers", [Column(c) for c in COLUMNS], cells))


def _markdown(certificates: Sequence[Certificate]) -> str:
    found = [row for row in rows(certificates) if row[2] == "used"]
    if not found:
        return ""
    lines = ["### Waived: still refuted, and not counted in the exit status", ""]
    for title, about, _, reason, owner, until, cases in found:
        told = f"**{escape(title)}**, {escape(about)}: {escape(reason)}"
        lines.append(f"- {told} ({escape(owner)}, until {until}; {escape(cases)})")
    return "\n".join(lines)


SECTION = Section(35, "What is waived", _html, _markdown)
