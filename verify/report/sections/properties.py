"""Properties: what must hold bit for bit or by structure, whatever the size of the error."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from verify.certificate import Certificate, Record
from verify.judge import Verdict
from verify.report import facts, refutation
from verify.report.section import Section
from verify.report.table import Cell, Column, quantity, table, verdict
from verify.report.template import render
from verify.report.words import words

COLUMNS = (
    Column("Property"),
    Column("Kernel and format"),
    Column("Verdict"),
    Column("Cases", True),
    Column("Not passed", True),
    Column("What was seen in the worst case"),
    Column("Worst case"),
)
TEMPLATE = """
{% if table %}<p>A property holds or does not; where a kernel does not declare it, it is looked at
only as far as the bound goes.</p>{{ table }}
{% else %}<p>No property was checked in these certificates.</p>{% endif %}
"""


def by_property(certificate: Certificate) -> dict[str, list[Record]]:
    """Records of properties, by the property's name."""
    found: dict[str, list[Record]] = defaultdict(list)
    for record in certificate.records:
        if record.check.startswith(facts.PROPERTY):
            found[record.check.removeprefix(facts.PROPERTY)].append(record)
    return dict(found)


def _row(name: str, title: str, records: Sequence[Record]) -> list[Cell]:
    worst = facts.worst(records)
    assert worst is not None
    fails = sum(r.verdict is not Verdict.PASS for r in records)
    passed = worst.verdict is Verdict.PASS
    return [
        Cell(words(name), heads_row=True),
        Cell(title),
        verdict(facts.record_status(worst)),
        quantity(len(records)),
        quantity(fails),
        Cell(worst.reason or ("holds" if passed else refutation.sentence(worst)), css="wide"),
        Cell(worst.case),
    ]


def _html(certificates: Sequence[Certificate]) -> str:
    rows = [
        _row(name, title, records)
        for title, certificate in zip(facts.titles(certificates), certificates, strict=True)
        for name, records in by_property(certificate).items()
    ]
    rows.sort(key=lambda cells: str(cells[0].text))
    return render(TEMPLATE, table=table("Properties", COLUMNS, rows) if rows else "")


SECTION = Section(110, "Properties", _html)
