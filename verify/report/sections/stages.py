"""Which stage of the computation makes up the bound: where a better kernel would have to begin."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from verify.certificate import Certificate
from verify.report import facts
from verify.report.figure import PAPER, SERIES, figure
from verify.report.section import Section
from verify.report.table import Cell, Column, table
from verify.report.template import render
from verify.report.words import words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEAD, LINE = 760.0, 76.0, 24.0
HATCHES = ("", "//", "--", "\\\\", "xx", "++", "||")  # no dots: a circle is a hundred times as long

TEMPLATE = """
<p>The bound at the deciding element of each case is a sum over stages; this is their share,
averaged over the cases. The largest share says which rounding limits what can be promised.</p>
{% for chart in charts %}{{ chart }}{% endfor %}
"""

NUMBERS = "<details><summary>The numbers of this picture</summary>{{ table }}</details>"


def shares(certificate: Certificate) -> dict[str, float]:
    """Mean share of each stage over the cases whose bound could be split."""
    total: dict[str, float] = defaultdict(float)
    split = [r.stages for r in certificate.records if r.stages]
    for stages in split:
        for stage, share in stages.items():
            total[stage] += float(share) / len(split)
    return dict(total)


def dominating(certificate: Certificate) -> Counter[str]:
    """In how many cases each stage is the largest one."""
    found = (
        max(sorted(r.stages), key=lambda s: r.stages[s]) for r in certificate.records if r.stages
    )
    return Counter(found)


def _chart(key: tuple[str, str], certificates: Sequence[Certificate]) -> str:
    titles = facts.titles(certificates)
    found = {t: shares(c) for t, c in zip(titles, certificates, strict=True)}
    found = {t: s for t, s in found.items() if s}
    names = sorted({stage for s in found.values() for stage in s})
    text = "; ".join(f"{t}: mostly {words(max(s, key=lambda n: s[n]))}" for t, s in found.items())
    below = _numbers(certificates, titles, names)
    return figure(
        f"Stages of the bound: {facts.group_title(key)}",
        f"{facts.group_title(key).capitalize()}: mean share of each stage in the bound.",
        text,
        (WIDTH, HEAD + LINE * len(found)),
        lambda canvas: _paint(canvas, found, names),
        below=render(NUMBERS, table=below),
    )


def _numbers(
    certificates: Sequence[Certificate], titles: Sequence[str], names: Sequence[str]
) -> str:
    columns = [Column("Kernel and format"), *(Column(words(n), True) for n in names)]
    rows = []
    for title, certificate in zip(titles, certificates, strict=True):
        share, first = shares(certificate), dominating(certificate)
        cells = [
            Cell(f"{100 * share.get(n, 0):.0f} %, largest in {first[n]}", share.get(n, 0.0), "num")
            for n in names
        ]
        rows.append([Cell(title, heads_row=True), *cells])
    return table("Share of each stage, and in how many cases it is the largest", columns, rows)


def _paint(canvas: Figure, found: Mapping[str, Mapping[str, float]], names: Sequence[str]) -> None:
    axes = canvas.add_subplot()
    left = [0.0] * len(found)
    for index, name in enumerate(names):
        width = [100 * s.get(name, 0.0) for s in found.values()]
        axes.barh(
            range(len(found)),
            width,
            left=left,
            height=0.7,
            color=SERIES[index % len(SERIES)],
            hatch=HATCHES[index % len(HATCHES)],
            edgecolor=PAPER,
            linewidth=0.8,
            label=words(name),
        )
        left = [a + b for a, b in zip(left, width, strict=True)]
    axes.set_yticks(range(len(found)), [t if len(t) < 45 else f"{t[:32]}…{t[-11:]}" for t in found])
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of the bound in %")
    canvas.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=10)


def _html(certificates: Sequence[Certificate]) -> str:
    groups = facts.groups(certificates)
    charts = [_chart(k, found) for k, found in groups.items() if any(map(shares, found))]
    return render(TEMPLATE, charts=charts) if charts else ""


SECTION = Section(100, "Which stage limits the bound", _html)
