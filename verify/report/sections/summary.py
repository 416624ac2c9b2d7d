"""The summary: one line per kernel and format, with the numbers that a choice rests on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from verify.certificate import Certificate
from verify.report import facts
from verify.report.markdown import escape, row
from verify.report.section import Section
from verify.report.table import Cell, Column, quantity, table, verdict
from verify.report.template import render
from verify.report.words import number, plural, ratio

COLUMNS = (
    Column("Kernel and format"),
    Column("Verdict"),
    Column(
        "Worst error / bound", True, "tightness: 1 is the bound; above it the kernel is refuted"
    ),
    Column("Typical", True, "error / bound: median over the cases of the case's median"),
    Column("Worst ulp", True, "largest error over all finite outputs, in ulps of the truth"),
    Column("To rounding", True, "largest error of a case over that of correct rounding"),
    Column("Lost", True, "cases that give NaN or infinity where the truth is finite"),
    Column("Grade", help="the tightest reference contract that no case refutes"),
    Column("Run", True, "cases"),
    Column("Skipped", True, "planned but not run; the reasons are listed below"),
    Column("Planned", True, "cases"),
    Column("Expected", help="what the kernel is shipped to show"),
    Column("Declared arithmetic"),
    Column("Operation"),
    Column("Device"),
    Column("Profile"),
)
TEMPLATE = """
<p>Error / bound (tightness) is the number that decides: at most 1, or the kernel is refuted. Near 1
a kernel uses all that its declared arithmetic permits; far below 1 it is better than it declares,
or the bound is loose there. An ulp is the spacing of the format at the exact result: where values
cancel, the exact result is tiny and its ulp with it, so that a sound kernel can be many ulps off.
“To rounding” compares with correct rounding of the same case instead: 1 is the best that the format
allows.</p>
{{ table }}
{% if suspects %}<p class="note">Marked ⚑: an element above what rounding errors that are
independent of one another would give. This is a mark, never a failure.</p>{% endif %}
"""


def _cells(certificate: Certificate, title: str) -> list[Cell]:
    grade = certificate.grade
    return [
        Cell(title, title, heads_row=True),
        verdict(facts.status(certificate)),
        _worst(certificate),
        quantity(facts.typical_tightness(certificate)),
        quantity(facts.largest_ulps(certificate)),
        quantity(facts.over_rounding(certificate)),
        quantity(facts.lost_values(certificate)),
        Cell(f"{grade.letter}: {grade.meaning}" if grade else "—", css="wide"),
        quantity(facts.run(certificate)),
        quantity(len(certificate.skipped)),
        quantity(certificate.planned),
        Cell(facts.expectation(certificate)),
        Cell(certificate.model["name"]),
        Cell(facts.operation(certificate)),
        Cell(certificate.device),
        Cell(certificate.profile),
    ]


def _worst(certificate: Certificate) -> Cell:
    """Largest error over bound; a lost value is worse than any number."""
    largest = facts.largest_tightness(certificate)
    lost = facts.lost_values(certificate)
    mark = " ⚑" if facts.suspect(certificate) else ""
    if lost:
        return Cell("✗ NaN or infinite", math.inf, "num verdict fail")
    if largest is not None and largest > 1:
        return Cell(f"✗ {ratio(largest)}{mark}", largest, "num verdict fail")
    return Cell(f"{ratio(largest)}{mark}", -1.0 if largest is None else largest, "num")


def _html(certificates: Sequence[Certificate]) -> str:
    if not certificates:
        return ""
    titles = facts.titles(certificates)
    rows = [_cells(c, t) for c, t in zip(certificates, titles, strict=True)]
    return render(
        TEMPLATE,
        table=table("Kernels and formats", COLUMNS, rows),
        suspects=any(map(facts.suspect, certificates)),
    )


def _markdown(certificates: Sequence[Certificate]) -> str:
    heads = ("Kernel", "Verdict", "Expected", "Grade", "Error / bound", "ulp", "Run", "Skipped")
    lines = [row(heads), row(["---"] * len(heads))]
    for certificate, title in zip(certificates, facts.titles(certificates), strict=True):
        status = facts.status(certificate)
        grade = certificate.grade.letter if certificate.grade else "—"
        lost = facts.lost_values(certificate)
        ulps = number(facts.largest_ulps(certificate))
        cells = [
            escape(title),
            f"{status.symbol} {status.word}",
            facts.expectation(certificate),
            escape(grade),
            "NaN or infinite" if lost else ratio(facts.largest_tightness(certificate)),
            f"lost in {plural(lost, 'case')}" if lost else ulps,
            f"{facts.run(certificate)} of {certificate.planned}",
            str(len(certificate.skipped)),
        ]
        lines.append(row(cells))
    return "\n".join(lines)


SECTION = Section(20, "Summary", _html, _markdown)
