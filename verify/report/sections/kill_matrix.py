"""The kill matrix: what refuted each kernel that is broken on purpose, in each format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from verify.certificate import Certificate
from verify.report.section import Section
from verify.report.table import Cell, Column, table
from verify.report.template import render

FORMATS = ("fp16", "bf16", "fp32")
TEMPLATE = """
<p>What refuted each kernel that is broken on purpose, with the margin: the lower end of its error
over the bound, or the check where no number decides.</p>
{% if table %}{{ table }}{% else %}<p class="note">No selftest backs these certificates.</p>
{% endif %}
"""


def _html(certificates: Sequence[Certificate]) -> str:
    matrix: Mapping[str, Mapping[str, str]] = next(
        (c.selftest["matrix"] for c in certificates if c.selftest and "matrix" in c.selftest), {}
    )
    rows = [
        [Cell(name, heads_row=True), *(Cell(formats.get(f, "not there")) for f in FORMATS)]
        for name, formats in sorted(matrix.items())
    ]
    columns = (Column("Fault"), *(Column(f) for f in FORMATS))
    return render(TEMPLATE, table=table("Kill matrix", columns, rows) if rows else "")


SECTION = Section(131, "What refuted the broken kernels?", _html)
