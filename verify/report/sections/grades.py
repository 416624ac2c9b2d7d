"""Grades: the tightest reference contract that no case refutes, and what refuted the one above."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from verify.certificate import Certificate
from verify.report import facts
from verify.report.section import Section
from verify.report.table import Cell, Column, table
from verify.report.template import render
from verify.report.words import ratio

KNOWN = ("CR", "F", "A", "A32", "T", "B", "B16", "B-", "C", "D", "E", "E-", "U")
TEMPLATE = """
<p>Each output is also held against reference contracts from strict to loose. The grade is the
first that no case refutes. “Not better” is certain, since a case refutes it; “at least as good”
holds for the cases that were run.</p>
{{ grades }}
{% for table in ratios %}{{ table }}{% endfor %}
"""


def contracts(certificates: Sequence[Certificate]) -> list[str]:
    """The contracts that occur, strict ones first."""
    found = {letter for c in certificates for r in c.records for letter in r.grades}
    order = {letter: at for at, letter in enumerate(KNOWN)}
    return sorted(found, key=lambda letter: (order.get(letter, len(KNOWN)), letter))


def largest(certificate: Certificate, contract: str) -> float | None:
    """Largest error over the contract's bound; infinite where a NaN refutes every contract."""
    if facts.lost_values(certificate):
        return math.inf
    ratios = [r.grades.get(contract) for r in certificate.records]
    return max((float(r) for r in ratios if r is not None), default=None)


def _grades(certificates: Sequence[Certificate]) -> str:
    columns = [Column("Kernel and format"), Column("Grade"), Column("Meaning")]
    columns.append(Column("The grade above is refuted by"))
    rows = []
    for title, certificate in zip(facts.titles(certificates), certificates, strict=True):
        grade = certificate.grade
        letter, meaning = (
            (grade.letter, grade.meaning) if grade else ("—", "nothing could be graded")
        )
        limited = (grade.limited_by if grade else None) or "—"
        rows.append([Cell(title, heads_row=True), Cell(letter), Cell(meaning), Cell(limited)])
    return table("Grades", columns, rows)


def _ratios(certificates: Sequence[Certificate]) -> list[str]:
    """One table for each set of contracts: 16-bit formats have others than binary32."""
    alike: dict[tuple[str, ...], list[tuple[str, Certificate]]] = defaultdict(list)
    for title, certificate in zip(facts.titles(certificates), certificates, strict=True):
        alike[tuple(contracts([certificate]))].append((title, certificate))
    return [_table(letters, found) for letters, found in alike.items() if letters]


def _table(letters: Sequence[str], found: Sequence[tuple[str, Certificate]]) -> str:
    columns = [Column("Kernel and format"), *(Column(letter, True) for letter in letters)]
    rows = []
    for title, certificate in found:
        cells = [_ratio(largest(certificate, letter)) for letter in letters]
        rows.append([Cell(title, heads_row=True), *cells])
    formats = ", ".join(facts.formats([c for _, c in found]))
    caption = f"Largest error over the bound of each contract, {formats} (above 1: refuted)"
    return table(caption, columns, rows)


def _ratio(value: float | None) -> Cell:
    if value is None:
        return Cell("—", -1.0, "num")
    if value > 1:
        shown = "not finite" if math.isinf(value) else ratio(value)
        return Cell(f"✗ {shown}", value, "num verdict fail")
    return Cell(f"✓ {ratio(value)}", value, "num verdict pass")


def _html(certificates: Sequence[Certificate]) -> str:
    if not any(c.grade for c in certificates):
        return ""
    return render(TEMPLATE, grades=_grades(certificates), ratios=_ratios(certificates))


SECTION = Section(120, "Grades", _html)
