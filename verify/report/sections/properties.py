"""Properties: what must hold bit for bit or by structure, whatever the size of the error."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from verify.certificate import Certificate, Record
from verify.judge import Verdict
from verify.report import facts, refutation
from verify.report.matrix import Square, matrix
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
{% if maps %}<p>A property holds or does not. Where a kernel does not declare it, it is looked at
only as far as the bound goes. A number counts the cases.</p>
{% for map in maps %}{{ map }}{% endfor %}
{% if broken %}{{ broken }}{% else %}<p>Every property that was checked holds.</p>{% endif %}
{% else %}<p>No property was checked in these certificates.</p>{% endif %}
"""

Properties = dict[str, list[Record]]


def by_property(certificate: Certificate) -> Properties:
    """Records of properties, by the property's name."""
    found: Properties = defaultdict(list)
    for record in certificate.records:
        if record.check.startswith(facts.PROPERTY):
            found[record.check.removeprefix(facts.PROPERTY)].append(record)
    return dict(found)


def _square(records: Sequence[Record]) -> Square | None:
    worst = facts.worst(records)
    if worst is None:
        return None
    status = facts.record_status(worst)
    css = "p1" if worst.verdict is Verdict.PASS else status.css
    return Square(f"{status.symbol} {len(records)}", css, status.word)


def _map(key: tuple[str, str], certificates: Sequence[Certificate]) -> str:
    found = [by_property(c) for c in certificates]
    names = sorted({name for properties in found for name in properties})
    rows = [(words(n), [_square(properties.get(n, ())) for properties in found]) for n in names]
    caption = f"{facts.group_title(key).capitalize()}: properties"
    return matrix(caption, "Property", certificates, rows) if rows else ""


def _row(name: str, title: str, records: Sequence[Record], worst: Record) -> list[Cell]:
    return [
        Cell(words(name), heads_row=True),
        Cell(title),
        verdict(facts.record_status(worst)),
        quantity(len(records)),
        quantity(sum(r.verdict is not Verdict.PASS for r in records)),
        Cell(worst.reason or refutation.sentence(worst), css="wide"),
        Cell(worst.case),
    ]


def _html(certificates: Sequence[Certificate]) -> str:
    maps = [_map(key, found) for key, found in facts.groups(certificates).items()]
    rows = []
    for title, certificate in zip(facts.titles(certificates), certificates, strict=True):
        for name, records in by_property(certificate).items():
            worst = facts.worst(records)
            if worst is not None and worst.verdict is not Verdict.PASS:
                rows.append(_row(name, title, records, worst))
    broken = table("Properties that do not hold, or are not decided", COLUMNS, rows) if rows else ""
    return render(TEMPLATE, maps=[m for m in maps if m], broken=broken)


SECTION = Section(110, "Properties", _html)
