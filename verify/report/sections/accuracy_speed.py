"""Accuracy against speed: kernels as points, grade as colour, the front that nothing dominates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from verify.certificate import Certificate
from verify.report import facts
from verify.report.figure import (
    BAD,
    GOOD,
    INK,
    MARKER_TEXT,
    MARKERS,
    MUTED,
    SERIES,
    VARIABLES,
    figure,
)
from verify.report.pareto import Point, compared, front, points
from verify.report.section import Section
from verify.report.sections.grades import KNOWN
from verify.report.sections.throughput import shown
from verify.report.table import Cell, Column, quantity, table
from verify.report.template import render
from verify.report.words import number, ratio

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (760.0, 420.0)
TEMPLATE = """
<p>Right is faster, up is more accurate: a kernel is worth a look if nothing lies to the right of it
and above it. The line joins these (the Pareto front); refuted kernels are crosses and never on it.
Accuracy is counted in correct bits of a typical case, of those that all certified kernels were
judged on, so that formats and kernels compare: what bf16 costs is
the height between its points and those of fp32, what it brings the distance.</p>
{% for part in parts %}{{ part }}{% endfor %}
"""
ANSWERS = """
<ul>{% for answer in answers %}<li>{{ answer }}</li>{% endfor %}</ul>
"""
LEGEND = """
<ul class="legend" aria-label="Marks">
{% for colour, mark, text in items %}
<li><span class="item">
<span style="color:{{ colour }}" aria-hidden="true">{{ mark }}</span>{{ text }}</span></li>
{% endfor %}
</ul>
"""
COLUMNS = (
    Column("Kernel and format"),
    Column("Grade"),
    Column("Tokens/s", True),
    Column("Ratio to reference", True),
    Column("Correct bits, typical", True, "median over the cases compared"),
    Column("Cases compared", True, "those that all certified kernels here were judged on"),
    Column("Largest error / bound", True, "over all cases of the kernel"),
    Column("On the front"),
    Column("Trust in the time"),
)


def _group(key: tuple[str, str], certificates: Sequence[Certificate]) -> str:
    shape = compared(certificates)
    found = points(certificates, shape) if shape else []
    if shape is None or len(found) < 2:
        return ""
    best = front(found)
    title = f"Accuracy against speed: {facts.group_title(key)}, {shape}"
    caption = f"{facts.group_title(key).capitalize()} at {shown(shape)}."
    text = "; ".join(_told(p) for p in best) or "no kernel is certified"
    told = render(ANSWERS, answers=answers(found))
    drawing = figure(title, caption, text, SIZE, lambda c: _paint(c, found, best), _below(found))
    return told + drawing + _table(found, best)


def answers(found: Sequence[Point]) -> list[str]:
    """Which kernel to use in each format, and what a narrower format costs, in words."""
    texts = []
    for fmt in dict.fromkeys(p.format for p in found):
        sure = [p for p in found if p.format == fmt and p.certified]
        if not sure:
            texts.append(f"{fmt}: none of the timed kernels is certified.")
            continue
        fastest, finest = max(sure, key=lambda p: p.rate), max(sure, key=lambda p: p.bits)
        text = f"{fmt}: the fastest certified kernel is {_told(fastest)}"
        same = finest.bits <= fastest.bits + 0.05
        texts.append(text + ("; none is more accurate." if same else f"; finest: {_told(finest)}."))
    return texts + costs(found) + doubts(found)


def costs(found: Sequence[Point]) -> list[str]:
    """For each 16-bit format: the fastest certified kernel beside the fastest in fp32."""
    fastest = {
        fmt: max((p for p in found if p.format == fmt and p.certified), key=lambda p: p.rate)
        for fmt in {p.format for p in found if p.certified}
    }
    wide = fastest.get("fp32")
    if wide is None:
        return []
    texts = []
    for fmt in ("bf16", "fp16"):
        narrow = fastest.get(fmt)
        if narrow is not None:
            texts.append(
                f"What {fmt} costs: {number(wide.bits - narrow.bits)} of {number(wide.bits)} "
                f"correct bits, for {number(narrow.rate / wide.rate)} times the speed of fp32 "
                f"({narrow.title} beside {wide.title})."
            )
    return texts


def doubts(found: Sequence[Point]) -> list[str]:
    """A warning where the times behind these sentences are not to be trusted."""
    levels = {p.trust for p in found} - {"good"}
    if not levels:
        return []
    return [f"Trust in some of these times is {' or '.join(sorted(levels))}: see Throughput."]


def _told(point: Point) -> str:
    return (
        f"{point.title}, grade {point.grade}, {number(point.rate)} tokens/s, "
        f"{number(point.bits)} correct bits"
    )


def _grades(found: Sequence[Point]) -> list[str]:
    """The grades of certified kernels, strict ones first."""
    order = {letter: at for at, letter in enumerate(KNOWN)}
    letters = {p.grade for p in found if p.certified}
    return sorted(letters, key=lambda g: order.get(g, len(KNOWN)))


def _formats(found: Sequence[Point]) -> list[str]:
    return [f for f in facts.FORMAT_ORDER if any(p.format == f for p in found)]


def _below(found: Sequence[Point]) -> str:
    grades, formats = _grades(found), _formats(found)
    items = [(VARIABLES[_colour(g, grades)], "■", f"grade {g}") for g in grades]
    items += [("var(--ink)", MARKER_TEXT[i], fmt) for i, fmt in enumerate(formats)]
    if any(not p.certified for p in found):
        items.append((VARIABLES[BAD], "✖", "not certified"))
    return render(LEGEND, items=items)


def _colour(grade: str, grades: Sequence[str]) -> str:
    return SERIES[grades.index(grade) % len(SERIES)]


def _paint(canvas: Figure, found: Sequence[Point], best: Sequence[Point]) -> None:
    grades, formats = _grades(found), _formats(found)
    plot = canvas.add_subplot()
    plot.set_xscale("log")
    plot.plot(
        [p.rate for p in best],
        [p.bits for p in best],
        color=GOOD,
        linewidth=1.2,
        linestyle="--",
        zorder=1,
    )
    for point in found:
        sure = point.certified
        plot.plot(
            [point.rate],
            [point.bits],
            color=_colour(point.grade, grades) if sure else BAD,
            marker=MARKERS[formats.index(point.format)] if sure else "x",
            markersize=8,
            linestyle="none",
            zorder=2,
        )
    _names(plot, found, best)
    plot.grid(axis="both")
    plot.set_xlabel("tokens per second (more is faster)")
    plot.set_ylabel("correct bits, typical case")
    plot.margins(x=0.18, y=0.14)
    _ticks(plot, [p.rate for p in found])


def _names(plot: Axes, found: Sequence[Point], best: Sequence[Point]) -> None:
    """Names of the points on the front; of the others where no name stands in their place yet."""
    rates, heights = [math.log(p.rate) for p in found], [p.bits for p in found]
    wide = max(max(rates) - min(rates), 1e-3)
    high = max(max(heights) - min(heights), 1e-3)
    placed: list[tuple[float, float]] = []
    for point in [*best, *(p for p in found if p not in best)]:
        place = ((math.log(point.rate) - min(rates)) / wide, (point.bits - min(heights)) / high)
        if any(abs(place[0] - x) < 0.3 and abs(place[1] - y) < 0.06 for x, y in placed):
            continue
        placed.append(place)
        plot.annotate(
            point.title,
            (point.rate, point.bits),
            xytext=(6, 6) if place[0] < 0.6 else (-6, 6),
            textcoords="offset points",
            ha="left" if place[0] < 0.6 else "right",
            color=INK if point in best else MUTED,
            fontsize=9,
        )


def _ticks(plot: Axes, rates: Sequence[float]) -> None:
    from matplotlib.ticker import NullLocator

    low, high = math.floor(math.log10(min(rates))), math.ceil(math.log10(max(rates)))
    ticks = [10.0**k for k in range(low, max(high, low + 1) + 1)]
    if len(ticks) <= 3:
        ticks = sorted(m * t for t in ticks for m in (1, 2, 5))
    plot.set_xticks(ticks, [number(t) for t in ticks])
    plot.xaxis.set_minor_locator(NullLocator())
    plot.set_xlim(min(rates) / 1.5, max(rates) * 1.5)


def _table(found: Sequence[Point], best: Sequence[Point]) -> str:
    rows = [
        [
            Cell(p.title, heads_row=True),
            Cell(p.grade),
            quantity(p.rate),
            quantity(p.ratio),
            quantity(p.bits),
            quantity(float(p.cases)),
            Cell(ratio(p.tightness), p.tightness, "num"),
            Cell("yes" if p in best else "no" if p.certified else "not certified"),
            Cell(p.trust),
        ]
        for p in sorted(found, key=lambda p: -p.rate)
    ]
    return table("Accuracy and speed", COLUMNS, rows)


def _html(certificates: Sequence[Certificate]) -> str:
    parts = [_group(key, found) for key, found in facts.groups(certificates).items()]
    parts = [part for part in parts if part]
    return render(TEMPLATE, parts=parts) if parts else ""


def _markdown(certificates: Sequence[Certificate]) -> str:
    lines = []
    for key, found in facts.groups(certificates).items():
        shape = compared(found)
        timed = points(found, shape) if shape else []
        if len(timed) > 1:
            lines.append(f"**Accuracy and speed, {facts.group_title(key)} at {shape}**\n")
            lines += [f"- {answer}" for answer in answers(timed)]
    return "\n".join(lines)


SECTION = Section(25, "Accuracy against speed", _html, _markdown)
