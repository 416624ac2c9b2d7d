"""Who judges the judge: the summary of the selftest that a certificate carries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from verify.certificate import Certificate
from verify.report import facts
from verify.report.section import Section
from verify.report.table import Cell, Column, table
from verify.report.template import render

TEMPLATE = """
<p>The suite ships kernels that are broken on purpose. A judge that lets one of them pass is not to
be believed; a certificate carries the summary of the run in which that was tested.</p>
{% if table %}{{ table }}{% else %}<p class="note">These certificates carry no such summary. Run
<code>attncert selftest</code>.</p>{% endif %}
"""


def flat(values: Mapping[str, Any], head: str = "") -> Iterator[tuple[str, Any]]:
    """Nested names joined by dots."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{head}{key}.")
        else:
            yield f"{head}{key}", value


def _html(certificates: Sequence[Certificate]) -> str:
    rows = [
        [Cell(title, heads_row=True), Cell(name), Cell(_shown(value))]
        for title, c in zip(facts.titles(certificates), certificates, strict=True)
        for name, value in flat({k: v for k, v in (c.selftest or {}).items() if k != "matrix"})
    ]
    columns = (Column("Kernel and format"), Column("What"), Column("Result"))
    return render(TEMPLATE, table=table("Selftest", columns, rows) if rows else "")


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


SECTION = Section(130, "Is the judge to be believed?", _html)
