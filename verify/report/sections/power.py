"""Power: the smallest planted error that the suite refutes, and where it can refute nothing."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from verify.certificate import Certificate
from verify.report import published
from verify.report.section import Section
from verify.report.table import Cell, Column, quantity, table
from verify.report.template import render
from verify.report.words import words

DEFECTS = ("scale", "element", "bias", "dropped key")
NOT_CERTIFIABLE = "NOT CERTIFIABLE"
MEANINGS = {
    "scale": "every output too large by the same relative error",
    "element": "one output, the most exposed, too large by it",
    "bias": "a constant added, relative to the mean size of a row",
    "dropped key": "one key left out; its probability",
}
TEMPLATE = """
<p>Errors of known size were planted in the best output that a format allows, under the undeclared
model of the format, and made smaller until no case of a family refuted them. Where the bound
exceeds the signal, zeros would pass: there nothing can be certified, and a case says NOT
CERTIFIABLE, never PASS. ({{ origin }})</p>
{{ least }}
{% for part in parts %}<details><summary>{{ part.format }}: every family and n</summary>
{{ part.table }}</details>{% endfor %}
"""
Families = dict[str, dict[str, dict[str, Any]]]


def sizes(families: Families, defect: str) -> list[tuple[float, str]]:
    """Each refuted size of a defect with its family and n, from the smallest up."""
    return sorted(
        (float(cell[defect]), f"{words(family)}, n = {n}")
        for family, by_n in families.items()
        for n, cell in by_n.items()
        if not isinstance(cell[defect], str)
    )


def _least(fmt: str, families: Families) -> list[list[Cell]]:
    cells = [cell for by_n in families.values() for cell in by_n.values()]
    rows = []
    for defect in DEFECTS:
        found = sizes(families, defect)
        if found:
            hopeless = sum(cell[defect] == NOT_CERTIFIABLE for cell in cells)
            rows.append(
                [
                    Cell(fmt, heads_row=True),
                    Cell(f"{defect}: {MEANINGS[defect]}", css="wide"),
                    quantity(found[0][0]),
                    Cell(found[0][1]),
                    quantity(median(size for size, _ in found)),
                    quantity(len(cells)),
                    quantity(hopeless),
                ]
            )
    return rows


def _full(families: Families) -> str:
    rows = [
        [
            Cell(words(family), heads_row=True),
            quantity(float(n)),
            *(_size(cell[defect]) for defect in DEFECTS),
        ]
        for family, by_n in sorted(families.items())
        for n, cell in by_n.items()
    ]
    columns = (Column("Family"), Column("n", True), *(Column(d, True) for d in DEFECTS))
    return table("Smallest refuted error", columns, rows)


def _size(size: float | str) -> Cell:
    return Cell(size, css="verdict outside") if isinstance(size, str) else quantity(size)


def _html(certificates: Sequence[Certificate]) -> str:
    formats = sorted({c.format for c in certificates})
    power = {f: published.tables()["power"][f] for f in formats if f in published.tables()["power"]}
    if not power:
        return ""
    columns = (
        Column("Format"),
        Column("Planted error"),
        Column("Smallest refuted", True),
        Column("by"),
        Column("Middle family", True),
        Column("Families and n", True),
        Column("Not certifiable", True),
    )
    rows = [row for fmt, families in power.items() for row in _least(fmt, families)]
    parts = [{"format": fmt, "table": _full(families)} for fmt, families in power.items()]
    least = table("Power", columns, rows)
    return render(TEMPLATE, origin=published.origin(), least=least, parts=parts)


SECTION = Section(133, "How small an error does the suite see?", _html)
