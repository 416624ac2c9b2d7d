"""Charts of a study as pictures, each with its numbers below it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from verify.report.figure import MUTED, figure, legend, style_of
from verify.report.table import Cell, Column, quantity, table
from verify.report.template import render
from verify.report.words import number
from verify.studies.document import Chart, Line, Number

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (460.0, 320.0)
NUMBERS = """
{{ legend }}
<details><summary>The numbers of this picture</summary>{{ table }}</details>
"""


def picture(chart: Chart) -> Markup:
    """The chart as inline SVG with legend and numbers."""
    caption = f"{chart.title}. {chart.caption}"
    told = "; ".join(_told(line) for line in chart.lines)
    below = render(NUMBERS, legend=legend([i.title for i in chart.lines]), table=numbers(chart))
    return figure(
        chart.title,
        caption,
        told,
        SIZE,
        lambda canvas: _paint(canvas, chart),
        below=below,
    )


def numbers(chart: Chart) -> Markup:
    """The numbers of a chart as a table: one row per x."""
    places = sorted({x for line in chart.lines for x in line.x})
    columns = [Column(chart.x_label, True), *(Column(i.title, True) for i in chart.lines)]
    found = [dict(zip(i.x, i.y, strict=True)) for i in chart.lines]
    rows = [
        [Cell(number(x, 6), x, "num", heads_row=True), *(quantity(f.get(x)) for f in found)]
        for x in places
    ]
    return table(f"{chart.title}: {chart.y_label}", columns, rows, filterable=False)


def _told(line: Line) -> str:
    return (
        f"{line.title}: {number(line.y[0])} at {number(line.x[0], 6)}, "
        f"{number(line.y[-1])} at {number(line.x[-1], 6)}"
    )


def _paint(canvas: Figure, chart: Chart) -> None:
    axes = canvas.add_subplot()
    axes.grid(axis="y")
    if chart.x_base:
        axes.set_xscale("log", base=chart.x_base)
    if chart.y_base:
        axes.set_yscale("log", base=chart.y_base)
    for value, words in chart.levels:
        axes.axhline(value, color=MUTED, linewidth=0.9, linestyle=":")
        axes.annotate(
            words, (0.01, value), xycoords=("axes fraction", "data"), ha="left", va="bottom",
            fontsize=9, color=MUTED,
        )  # fmt: skip
    for index, line in enumerate(chart.lines):
        colour, marker = style_of(index)
        y = [_shown(v, chart) for v in line.y]
        (drawn,) = axes.plot(line.x, y, color=colour, marker=marker, markersize=4.5, linewidth=1.4)
        drawn.set_gid(f"series-{index}")
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    _ticks(axes, chart)


def _shown(value: Number, chart: Chart) -> float:
    if value is None or not math.isfinite(value):
        return math.nan
    return max(float(value), chart.floor) if chart.y_base else float(value)


def _ticks(axes: Axes, chart: Chart) -> None:
    from matplotlib.ticker import NullLocator

    if chart.x_base:
        places = sorted({x for line in chart.lines for x in line.x})
        if len(places) <= 9:
            axes.set_xticks(places, [number(x, 6) for x in places])
            axes.xaxis.set_minor_locator(NullLocator())
    if chart.y_base:
        shown = [_shown(v, chart) for line in chart.lines for v in line.y]
        shown = [v for v in shown if v > 0] + [v for v, _ in chart.levels]
        if shown:
            _decades(axes, min(shown), max(shown))


def _decades(axes: Axes, lowest: float, highest: float) -> None:
    """Powers of ten that cover the values, at most eight of them."""
    from matplotlib.ticker import NullLocator

    low, high = math.floor(math.log10(lowest)), math.ceil(math.log10(highest))
    step = max(1, -(-(high - low) // 7))
    ticks = [10.0**k for k in range(low, max(high, low + 1) + 1, step)]
    axes.set_ylim(min(lowest, ticks[0]) / 1.3, max(highest, ticks[-1]) * 1.3)
    axes.set_yticks(ticks, [number(t) for t in ticks])
    axes.yaxis.set_minor_locator(NullLocator())
