"""The seed case: three scores 1000, 1001, 999, on which an unshifted softmax overflows."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import product
from typing import Any

from verify.certificate import Certificate, Record
from verify.report import facts
from verify.report.refutation import short
from verify.report.section import Section
from verify.report.table import Cell, Column, quantity, table, verdict
from verify.report.template import render
from verify.report.words import as_float, words

FAMILY = facts.SEED_CASE

TEMPLATE = """
{% if not tables %}<p>These certificates hold no record of the family <code>{{ family }}</code>, so
nothing can be shown here.</p>{% else %}
<p>The scores are 1000, 1001 and 999. Subtracting the largest one makes this the easiest of rows;
without it every exponential overflows, and the output is infinity divided by infinity.</p>
{% for exact in truths %}
<p><strong>Truth of {{ exact.operation }}</strong> ({{ exact.formats }}), as these certificates hold
it: {% for place, value in exact.outputs -%}
output {{ place }} {% if value %}= <code>{{ value }}</code>
{%- else %}is not kept by any{% endif %}{{ "; " if not loop.last }}
{%- endfor %}.</p>
{% endfor %}
{% for table in tables %}{{ table }}{% endfor %}
<p class="note">The deciding output is the one with the largest error over its bound. A format
that cannot hold the scores rounds them first; the truth is that of the scores as they are
stored.</p>
{% endif %}
"""
COLUMNS = (
    Column("Kernel and format"),
    Column("Verdict"),
    Column("The kernel returned"),
    Column("Deciding output"),
    Column("Value", True),
    Column("Truth", True),
    Column("Error (ulp)", True),
    Column("Case"),
)

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


def truths(operation: str, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The exact outputs that the certificates hold; formats with the same ones stand together."""
    held: dict[str, dict[tuple[int, ...], str]] = defaultdict(dict)
    for _, certificate, record in rows:
        outputs = held[certificate.format]
        for index in product(*map(range, record.shape.get("x", ()))):
            outputs.setdefault(index, "")
        for index, (_, truth) in zip(sorted(outputs), record.sample, strict=False):
            outputs[index] = short(truth)
        if record.finding is not None:
            outputs[record.finding.index] = short(record.finding.truth)
    merged: dict[tuple[tuple[str, str], ...], list[str]] = defaultdict(list)
    for fmt, outputs in held.items():
        merged[tuple((_place_text(i), outputs[i]) for i in sorted(outputs))].append(fmt)
    return [
        {"operation": operation, "formats": ", ".join(formats), "outputs": outputs}
        for outputs, formats in merged.items()
    ]


def _place_text(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]"


def _table(operation: str, rows: Sequence[Row]) -> str:
    lines = [_line(title, record) for title, _, record in rows]
    return table(f"Scores 1000, 1001, 999: {words(operation)}", COLUMNS, lines)


def _line(title: str, record: Record) -> list[Cell]:
    found = record.finding
    assert found is not None
    lost = facts.nonfinite(found)
    value = Cell(f"✗ {short(found.value)}", math.inf, "num verdict fail")
    return [
        Cell(title, heads_row=True),
        verdict(facts.record_status(record)),
        Cell(", ".join(short(value) for value, _ in record.sample) or "not kept"),
        Cell(f"{found.output}{_place_text(found.index)}"),
        value if lost else Cell(short(found.value), as_float(found.value), "num"),
        Cell(short(found.truth), as_float(found.truth), "num"),
        quantity(found.ulps),
        Cell(record.case.removeprefix(f"{FAMILY}/")),
    ]


def _html(certificates: Sequence[Certificate]) -> str:
    found = chosen(certificates)
    exact = truths("softmax", found.get("softmax", ()))
    tables = [_table(name, rows) for name, rows in found.items()]
    return render(TEMPLATE, tables=tables, truths=exact, family=FAMILY)


SECTION = Section(40, "The seed case", _html)
