"""Gates of others: what other projects' tests would have said of the broken kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from verify.certificate import Certificate
from verify.report import published
from verify.report.section import Section
from verify.report.table import Cell, Column, quantity, table
from verify.report.template import render

FORMATS = ("fp16", "bf16", "fp32")
TEMPLATE = """
<p>Each kernel that is broken on purpose was also put before the gates of other test suites, each
with its own inputs and its own rule. The suite behind this page must refute every one of them: that
is what <code>attncert selftest</code> checks. What a gate accepts here says nothing about the
kernels that it tests in its own project. ({{ origin }})</p>
{{ gates }}
<details><summary>Fault by fault: which gates accept it</summary>{{ faults }}</details>
"""


def accepted_by(gate: str, verdicts: Mapping[str, Mapping[str, Sequence[str]]]) -> int:
    """How many (kernel, format) pairs a gate is named for."""
    return sum(gate in named for formats in verdicts.values() for named in formats.values())


def _html(certificates: Sequence[Certificate]) -> str:
    found = published.tables()
    total = sum(len(formats) for formats in found["accepted"].values())
    right = sum(len(formats) for formats in found["right_rejected"].values())
    gates = [
        [
            Cell(name, heads_row=True),
            Cell(gate["rule"], css="wide"),
            quantity(accepted_by(name, found["accepted"])),
            quantity(total),
            quantity(accepted_by(name, found["right_rejected"])),
            quantity(right),
            Cell(gate["source"], css="wide"),
        ]
        for name, gate in found["gates"].items()
    ]
    columns = (
        Column("Gate"),
        Column("Rule"),
        Column("Broken, accepted", True),
        Column("of", True),
        Column("Right, rejected", True),
        Column("of", True),
        Column("Source"),
    )
    faults = [
        [Cell(name, heads_row=True), *(_told(formats.get(f)) for f in FORMATS)]
        for name, formats in sorted(found["accepted"].items())
    ]
    return render(
        TEMPLATE,
        origin=published.origin(),
        gates=table("Gates of others", columns, gates),
        faults=table("Accepted by", (Column("Fault"), *(Column(f) for f in FORMATS)), faults),
    )


def _told(gates: Sequence[str] | None) -> Cell:
    if gates is None:
        return Cell("not there")
    return Cell(f"{len(gates)}: {', '.join(gates)}" if gates else "none", len(gates))


SECTION = Section(132, "What would other gates have said?", _html)
