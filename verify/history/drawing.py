"""Drawing: trends as a section of a report - pictures, tables - and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from verify.history.trend import State, Trend
from verify.report.figure import figure, legend, style_of
from verify.report.markdown import escape, row
from verify.report.section import Section
from verify.report.table import Cell, Column, quantity, table
from verify.report.template import render
from verify.report.words import number, ratio

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (430.0, 280.0)
WIDE = 30.0  # figures further apart than this stand on a logarithmic axis
TEMPLATE = """
<p>Versions from left to right, oldest first. Tightness is error over bound, so a line that rises
uses more of what the declared arithmetic allows; a version with another declaration has another
bound. {{ shapes }}</p>
{% if profiles %}<p class="notice">The versions were not certified alike ({{ profiles }}): figures
of several profiles do not compare.</p>{% endif %}
<div class="charts">{% for chart in charts %}{{ chart }}{% endfor %}</div>
{{ table }}
"""
COLUMNS = (
    Column("Kernel and format"),
    Column("Version"),
    Column("Verdict"),
    Column("Grade"),
    Column("Tightness, typical", True),
    Column("Tightness, largest", True),
    Column("Correct bits, typical", True),
    Column("Tokens/s", True),
    Column("Ratio to reference", True),
    Column("Trust in the time"),
)
# Title, and the figure of a state; more of it is better or worse as the title says.
CHARTS: tuple[tuple[str, Callable[[State], float | None]], ...] = (
    ("Tightness, largest (less is better)", lambda s: s.largest),
    ("Correct bits of a typical case (more is better)", lambda s: s.accuracy),
    ("Tokens per second (more is faster)", lambda s: s.rate),
    ("Ratio to the reference (more is faster)", lambda s: s.ratio),
)
MARKDOWN = ("Kernel", "Version", "Verdict", "Grade", "Tightness", "Tokens/s", "Ratio")


def section(found: Sequence[Trend], versions: Sequence[str]) -> Section:
    """The history as a section; it says nothing of the certificates that a page passes it."""
    return Section(
        5, "History", lambda _: _html(found, versions), lambda _: markdown(found, versions)
    )


def _html(found: Sequence[Trend], versions: Sequence[str]) -> str:
    charts = [_chart(title, value, found, versions) for title, value in CHARTS]
    shapes = sorted({t.shape for t in found if t.shape})
    profiles = sorted({s.profile for t in found for s in t.states if s is not None})
    return render(
        TEMPLATE,
        charts=[chart for chart in charts if chart],
        table=table("History", COLUMNS, _rows(found, versions)),
        shapes=f"Speed is that at {', '.join(shapes)}." if shapes else "",
        profiles=", ".join(profiles) if len(profiles) > 1 else "",
    )


def _rows(found: Sequence[Trend], versions: Sequence[str]) -> list[list[Cell]]:
    return [
        [Cell(trend.title, heads_row=True), Cell(version, float(place)), *_cells(state)]
        for trend in found
        for place, (version, state) in enumerate(zip(versions, trend.states, strict=True))
    ]


def _cells(state: State | None) -> list[Cell]:
    if state is None:
        return [Cell("not certified here"), *(Cell("—") for _ in COLUMNS[3:])]
    return [
        Cell(state.verdict),
        Cell(state.grade),
        quantity(state.typical),
        Cell(ratio(state.largest), state.largest, "num"),
        quantity(state.accuracy),
        quantity(state.rate),
        quantity(state.ratio),
        Cell(state.trust or "—"),
    ]


def _chart(
    title: str,
    value: Callable[[State], float | None],
    found: Sequence[Trend],
    versions: Sequence[str],
) -> str:
    # A kernel without figures here keeps its place, so that it has one colour in every picture.
    lines = {t.title: [None if s is None else value(s) for s in t.states] for t in found}
    if not any(sum(y is not None for y in ys) > 1 for ys in lines.values()):
        return ""
    text = "; ".join(f"{t}: {', '.join(number(y) for y in ys)}" for t, ys in lines.items())
    return figure(
        title,
        f"{title}.",
        text,
        SIZE,
        lambda canvas: _paint(canvas, list(lines.values()), versions, title),
        below=legend(list(lines)),
    )


def _paint(
    canvas: Figure, lines: Sequence[Sequence[float | None]], versions: Sequence[str], title: str
) -> None:
    plot = canvas.add_subplot()
    for index, ys in enumerate(lines):
        colour, marker = style_of(index)
        xs = [x for x, y in enumerate(ys) if y is not None]
        heights = [y for y in ys if y is not None]
        (drawn,) = plot.plot(xs, heights, color=colour, marker=marker, markersize=5, linewidth=1.4)
        drawn.set_gid(f"series-{index}")
    plot.set_xticks(range(len(versions)), [_short(v) for v in versions])
    plot.set_ylabel(title.partition(" (")[0])
    heights = [y for ys in lines for y in ys if y is not None and y > 0]
    if max(heights, default=1.0) > WIDE * min(heights, default=1.0):
        _logarithmic(plot, min(heights), max(heights))
    else:
        plot.set_ylim(bottom=0)
    plot.grid(axis="y")
    plot.margins(x=0.08)


def _logarithmic(plot: Axes, low: float, high: float) -> None:
    """Powers of ten as ticks, written as everywhere in the page."""
    from matplotlib.ticker import NullLocator

    plot.set_yscale("log")
    ticks = [10.0**k for k in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    plot.set_yticks(ticks, [number(t) for t in ticks])
    plot.yaxis.set_minor_locator(NullLocator())


def _short(name: str) -> str:
    """A name that fits under its tick."""
    return name if len(name) <= 14 else f"{name[:13]}…"


def markdown(found: Sequence[Trend], versions: Sequence[str]) -> str:
    """One table."""
    lines = [row(list(MARKDOWN)), row(["---"] * len(MARKDOWN))]
    for trend in found:
        for version, state in zip(versions, trend.states, strict=True):
            lines.append(row([escape(cell) for cell in (trend.title, version, *told(state))]))
    return "\n".join(lines) + "\n"


def told(state: State | None) -> tuple[str, ...]:
    """Verdict, grade, largest tightness, tokens per second and ratio as text."""
    if state is None:
        return ("not certified here", "—", "—", "—", "—")
    return (
        state.verdict, state.grade, ratio(state.largest), number(state.rate), number(state.ratio)
    )  # fmt: skip
