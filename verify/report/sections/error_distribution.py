"""How the errors are distributed, and whether they lean to one side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from verify.certificate import Certificate
from verify.metrics import HISTOGRAM_EDGES
from verify.report import facts
from verify.report.figure import BAD, MUTED, SERIES, svg
from verify.report.section import Section
from verify.report.table import Cell, Column, quantity, table
from verify.report.template import render
from verify.report.words import count, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = len(HISTOGRAM_EDGES) + 1
ZERO = BINS // 2  # bins before it hold negative errors
SIZE = (170.0, 40.0)
COLUMNS = (
    Column("Kernel and format"),
    Column("Signed errors", help="share of the outputs per bin; zero in the middle"),
    Column("Outputs", True, "elements that were compared"),
    Column("Below ½ ulp", True, "as good as correct rounding"),
    Column("Below 1 ulp", True, "faithfully rounded"),
    Column("Above 4 ulp", True),
    Column("Mean (ulp)", True, "of the signed errors; weighted by outputs"),
    Column("Largest |z|", True, "of a case: how far its mean is from 0, in standard errors"),
)
TEMPLATE = """
<p>Bars count output elements by signed error (output − truth) in ulp. The bins end at
{{ edges }} ulp on either side; the outermost ones are open. Where values cancel, the exact result
and its ulp are tiny, and a sound kernel is many ulps off. A picture that leans to one side shows a
bias; adversarial cases may cause one, so a large |z| in a single case is reported, not judged.</p>
{{ table }}
"""


@dataclass(frozen=True)
class Distribution:
    """Counts per bin over all cases of a certificate, with the mean signed error."""

    counts: tuple[int, ...]
    mean: float | None
    z: float | None

    @property
    def total(self) -> int:
        return sum(self.counts)

    def share(self, first: int, last: int) -> float:
        return sum(self.counts[first:last]) / self.total

    def within(self, ulps: float) -> float:
        """Share of outputs whose error is below so many ulps (one of the edges)."""
        reach = HISTOGRAM_EDGES.index(ulps) + 1
        return self.share(BINS - reach, reach)


def distribution(certificate: Certificate) -> Distribution | None:
    """None where no record holds a histogram."""
    counts = [0] * BINS
    total = weighted = 0.0
    scores = []
    for record in certificate.records:
        found = facts.measures(record)
        bins = found.get("histogram")
        if not bins or len(bins) != BINS:
            continue
        counts = [a + int(b) for a, b in zip(counts, bins, strict=True)]
        if found.get("mean_ulp") is not None:
            weighted += float(found["mean_ulp"]) * sum(bins)
            total += sum(bins)
        if found.get("z") is not None:
            scores.append(abs(float(found["z"])))
    if not sum(counts):
        return None
    mean = weighted / total if total else None
    return Distribution(tuple(counts), mean, max(scores, default=None))


def _picture(title: str, found: Distribution) -> str:
    text = ", ".join(
        f"{percent(found.within(e))} below {number(e)} ulp" for e in (0.5, 1.0, 4.0, 64.0)
    )
    return svg(f"Signed errors of {title}", text, SIZE, lambda canvas: _paint(canvas, found))


def _paint(canvas: Figure, found: Distribution) -> None:
    canvas.set_layout_engine("none")
    axes = canvas.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    heights = [c / found.total for c in found.counts]
    far = HISTOGRAM_EDGES.index(-4.0) + 1
    colours = [BAD if i < far or i >= BINS - far else SERIES[0] for i in range(BINS)]
    axes.bar(range(BINS), heights, width=0.9, color=colours)
    axes.axvline(ZERO - 0.5, color=MUTED, linewidth=1, linestyle=":")
    axes.axhline(0, color=MUTED, linewidth=1)
    axes.set_xlim(-0.6, BINS - 0.4)
    axes.set_ylim(0, max(heights) * 1.05)


def percent(share: float) -> str:
    """A share as a percentage that is 0 or 100 only where it is exactly that."""
    if 0 < share < 0.0001:
        return "< 0.01 %"
    if 0.9995 < share < 1:
        return f"{100 * share:.4g} %" if share < 0.999999 else "> 99.99 %"
    return f"{100 * share:.3g} %"


def _row(title: str, found: Distribution) -> list[Cell]:
    above = 1.0 - found.within(4.0)
    shares = [found.within(0.5), found.within(1.0), above]
    return [
        Cell(title, heads_row=True),
        Cell(_picture(title, found), found.mean or 0.0),
        Cell(count(found.total), float(found.total), "num"),
        *(Cell(percent(s), s, "num") for s in shares),
        quantity(found.mean),
        quantity(found.z),
    ]


def _html(certificates: Sequence[Certificate]) -> str:
    rows = []
    for title, certificate in zip(facts.titles(certificates), certificates, strict=True):
        found = distribution(certificate)
        if found is not None:
            rows.append(_row(title, found))
    if not rows:
        return ""
    edges = ", ".join(number(e) for e in HISTOGRAM_EDGES if e > 0)
    return render(TEMPLATE, table=table("Distribution of errors", COLUMNS, rows), edges=edges)


SECTION = Section(70, "Error distribution and bias", _html)
