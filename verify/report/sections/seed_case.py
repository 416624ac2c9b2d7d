"""The seed case: three scores 1000, 1001, 999, on which an unshifted softmax overflows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from verify.certificate import Certificate, Record
from verify.report import facts
from verify.report.refutation import short
from verify.report.section import Section
from verify.report.table import Cell, Column, table, verdict
from verify.report.template import render
from verify.report.words import decimal

FAMILY = "seed_case"
MOST = 4  # outputs that are shown side by side; the case has three

TEMPLATE = """
{% if not tables %}<p>These certificates hold no record of the family <code>{{ family }}</code>, so
nothing can be shown here.</p>{% else %}
<p>The scores are 1000, 1001 and 999. Subtracting the largest one makes this the easiest of rows;
without it, every exponential overflows and the output is infinity divided by infinity. A certificate
keeps one element of each case (the one that decided), so a dash means: not kept, not wrong.</p>
{% for table in tables %}{{ table }}{% endfor %}{% endif %}
"""

Row = tuple[str, Certificate, Record]


def chosen(certificates: Sequence[Certificate]) -> dict[str, list[Row]]:
    """For each operation, the shortest positive case of each certificate."""
    found: dict[str, list[Row]] = defaultdict(list)
    for title, certificate in zip(facts.titles(certificates), certificates, strict=True):
        records = [r for r in certificate.records if r.family == FAMILY and r.finding is not None]
        if records:
            record = min(records, key=_place)
            found[facts.operation(certificate)].append((title, certificate, record))
    return dict(found)


def _place(record: Record) -> tuple[bool, float, str]:
    keys = record.notes.get("n", record.notes.get("n_k", 0.0))
    return (record.notes.get("level", 0.0) < 0, keys, record.case)


def _outputs(rows: Sequence[Row]) -> list[tuple[int, ...]]:
    """The indices that the certificates hold, in order."""
    held = sorted({r.finding.index for _, _, r in rows if r.finding and r.finding.output == "output"})
    return held[:MOST]


def _truths(rows: Sequence[Row]) -> dict[tuple[str, tuple[int, ...]], str]:
    """The exact result per case and index, as some certificate holds it."""
    found = {}
    for _, certificate, record in rows:
        if record.finding:
            found[certificate.format, record.finding.index] = record.finding.truth
    return found


def _table(operation: str, rows: Sequence[Row]) -> str:
    outputs = _outputs(rows)
    columns = [Column("Kernel and format"), Column("Verdict")]
    for index in outputs:
        columns += [Column(f"output {list(index)}", True), Column(f"truth {list(index)}", True)]
    columns += [Column("Element that decided")]
    lines = []
    truths = _truths(rows)
    for title, certificate, record in rows:
        line = [Cell(title, heads_row=True), verdict(facts.record_status(record))]
        for index in outputs:
            truth = truths.get((certificate.format, index))
            line += [_value(record, index), Cell(short(truth) if truth else "—", css="num")]
        line.append(Cell(record.case.removeprefix(f"{FAMILY}/")))
        lines.append(line)
    return table(f"Scores 1000, 1001, 999: {operation}", columns, lines)


def _value(record: Record, index: tuple[int, ...]) -> Cell:
    found = record.finding
    if found is None or found.index != index:
        return Cell("—", css="num")
    text = short(found.value)
    lost = decimal(found.value) != found.value
    return Cell(f"✗ {text}" if lost else text, css="num verdict fail" if lost else "num")


def _html(certificates: Sequence[Certificate]) -> str:
    tables = [_table(name, rows) for name, rows in chosen(certificates).items()]
    return render(TEMPLATE, tables=tables, family=FAMILY)


SECTION = Section(40, "The seed case", _html)
