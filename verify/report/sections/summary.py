"""The summary: one line per kernel and format, with the numbers that a choice rests on."""

from __future__ import annotations

from collections.abc import Sequence

from verify.certificate import Certificate
from verify.report import facts
from verify.report.markdown import escape, row
from verify.report.section import Section
from verify.report.table import Cell, Column, quantity, table, verdict
from verify.report.template import render
from verify.report.words import number

COLUMNS = (
    Column("Kernel and format"),
    Column("Verdict"),
    Column("Expected", help="what the kernel is shipped to show"),
    Column("Grade", help="the tightest reference contract that no case refutes"),
    Column("Largest error / bound", True, "tightness: 1 is the bound; above it the kernel is refuted"),
    Column("Typical error / bound", True, "median over the cases of the case's median"),
    Column("Largest error (ulp)", True, "over all finite outputs, in ulps of the truth"),
    Column("NaN or infinite", True, "cases that give NaN or infinity where the truth is finite"),
    Column("Cases run", True),
    Column("Skipped", True, "planned but not run; the reasons are listed below"),
    Column("Planned", True),
    Column("Operation"),
    Column("Device"),
    Column("Declared arithmetic"),
    Column("Profile"),
)
TEMPLATE = """
<p>The largest error is what counts; typical values tell how much of the bound is used as a rule.
A kernel near 1 uses all that its declared arithmetic permits; far below 1 it is better than it
declares, or the bound is loose there.</p>
{{ table }}
{% if suspects %}<p class="note">Marked ⚑: an element above what rounding errors that are
independent of one another would give. This is a mark, never a failure.</p>{% endif %}
"""


def _cells(certificate: Certificate, title: str) -> list[Cell]:
    grade = certificate.grade
    mark = " ⚑" if facts.suspect(certificate) else ""
    largest = facts.largest_tightness(certificate)
    return [
        Cell(title, title, heads_row=True),
        verdict(facts.status(certificate)),
        Cell("to be refuted" if certificate.expected == "fail" else "to pass"),
        Cell(f"{grade.letter}: {grade.meaning}" if grade else "—", grade.letter if grade else "~"),
        Cell(f"{number(largest)}{mark}", -1.0 if largest is None else largest, "num"),
        quantity(facts.typical_tightness(certificate)),
        quantity(facts.largest_ulps(certificate)),
        quantity(facts.lost_values(certificate)),
        quantity(facts.run(certificate)),
        quantity(len(certificate.skipped)),
        quantity(certificate.planned),
        Cell(facts.operation(certificate)),
        Cell(certificate.device),
        Cell(certificate.model["name"]),
        Cell(certificate.profile),
    ]


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
            "refuted" if certificate.expected == "fail" else "pass",
            escape(grade),
            number(facts.largest_tightness(certificate)),
            f"NaN or infinite in {lost}" if lost else ulps,
            f"{facts.run(certificate)} of {certificate.planned}",
            str(len(certificate.skipped)),
        ]
        lines.append(row(cells))
    return "\n".join(lines)


SECTION = Section(20, "Summary", _html, _markdown)
