"""The statistical tier: what it marks, and how small an error this run would have seen."""

from __future__ import annotations

from collections.abc import Sequence

from verify.certificate import Certificate, Record
from verify.operation import PACKED
from verify.report import facts
from verify.report.section import Section
from verify.report.table import Cell, Column, quantity, table
from verify.report.template import render

TEMPLATE = """
<p>Beside the bound there is an estimate of what rounding errors that behave as if at random hardly
ever exceed. An element above it is marked SUSPECT: a reason to look, never a refutation, for
rounding errors need not be random (equal probabilities all round the same way). For softmax alone
and for gradients none is proved: the bound stands in its place, and nothing can be marked.</p>
<p>The last columns are the power of the run: the smallest relative error, the same in every output,
that would have been refuted (or marked) in one case at least, added to the errors that the kernel
has anyway. A smaller one would have gone unseen.</p>
{{ table }}
"""
ESTIMATED = ("attention", *PACKED)  # the operations that Theorem 2 is about
NONE = Cell("no estimate")
COLUMNS = (
    Column("Kernel and format"),
    Column("Cases marked", True),
    Column("Elements marked", True),
    Column("Cases judged", True),
    Column("The case with the most"),
    Column("Would mark from", True, "smallest uniform relative error above the estimate"),
    Column("Would refute from", True, "smallest uniform relative error above the bound"),
    Column("Refuting case"),
)


def smallest(records: Sequence[Record], metric: str) -> tuple[float | None, str]:
    """The least of a metric over the records that have it, and the case that gave it."""
    found = [(r.metrics[metric], r.case) for r in records if r.metrics.get(metric) is not None]
    sizes = [(float(size), case) for size, case in found if 0 < float(size) < float("inf")]
    return min(sizes, default=(None, ""))


def _row(title: str, certificate: Certificate) -> list[Cell]:
    judged = facts.judged(certificate)
    marked = [r for r in judged if r.counts.get("suspect", 0)]
    most = max(marked, key=lambda r: r.counts["suspect"], default=None)
    refutes, case = smallest(judged, "refutes_from")
    has = certificate.kernel["operation"] in ESTIMATED
    return [
        Cell(title, heads_row=True),
        quantity(len(marked)) if has else NONE,
        quantity(sum(r.counts["suspect"] for r in marked)) if has else NONE,
        quantity(len(judged)),
        Cell(most.case if most else ""),
        quantity(smallest(judged, "suspects_from")[0]) if has else NONE,
        quantity(refutes),
        Cell(case),
    ]


def _html(certificates: Sequence[Certificate]) -> str:
    rows = [
        _row(title, c)
        for title, c in zip(facts.titles(certificates), certificates, strict=True)
        if facts.judged(c)
    ]
    if not rows:
        return ""
    return render(TEMPLATE, table=table("Statistical tier and power of this run", COLUMNS, rows))


SECTION = Section(105, "Suspicion, and the smallest error that would have been seen", _html)
