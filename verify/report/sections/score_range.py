"""Error against score range: one line per kernel and format, with its bound and the thresholds."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from verify.certificate import Certificate, Record
from verify.formats import FORMATS
from verify.judge import Verdict
from verify.report import facts
from verify.report.figure import BAD, GRID, MUTED, figure, legend, style_of
from verify.report.section import Section
from verify.report.table import Cell, Column, quantity, table
from verify.report.template import render
from verify.report.words import number, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FAMILY = "score_ladder"
FLOOR = 2.0**-7  # errors below it, and exact results, are drawn on it
SIZE = (960.0, 420.0)
BEND = 1e5  # beyond it the axis is pressed together: nothing changes there but overflow
TICKS = (-3e38, -1e5, -1e3, -100, -10, 0, 10, 100, 1e3, 1e5, 3e38)

TEMPLATE = """
<p>The score of the largest key runs from −3·10<sup>38</sup> to 3·10<sup>38</sup>. Solid lines are
errors, dashed lines of the same colour the proved bounds: a solid line may not rise above its
dashed one. Where a dashed line is missing, the declared arithmetic promises nothing. Crosses in the
band at the top are outputs that are <strong>NaN or infinite although the truth is finite</strong>.
Dotted lines are the scores at which an exponential overflows, becomes subnormal or vanishes.</p>
{% for chart in charts %}{{ chart }}{% else %}
<p>No record tells the range of its scores.</p>{% endfor %}
"""
NUMBERS = """
{{ legend }}
<details><summary>The numbers of this picture</summary><p>{{ told }}.</p>{{ table }}</details>
"""


@dataclass(frozen=True)
class Point:
    """The worst record at one score level; `ulps` is None where the output is not finite."""

    level: float
    ulps: float | None
    bound: float | None
    record: Record


@dataclass(frozen=True)
class Line:
    """One kernel in one format."""

    title: str
    certificate: Certificate
    points: tuple[Point, ...]

    @property
    def lost(self) -> int:
        return sum(p.ulps is None for p in self.points)


def line(title: str, certificate: Certificate) -> Line:
    """The ladder of a certificate; where it has none, all its records by their largest score."""
    found = [(r, r.notes["level"]) for r in certificate.records if _on_ladder(r)]
    if not found:
        found = [(r, _reach(r)) for r in certificate.records if r.scores is not None]
    levels: dict[float, list[Record]] = defaultdict(list)
    for record, level in found:
        if record.finding is not None and math.isfinite(level):
            levels[level].append(record)
    points = [_point(level, levels[level], certificate.format) for level in sorted(levels)]
    return Line(title, certificate, tuple(p for p in points if p is not None))


def _on_ladder(record: Record) -> bool:
    return record.family == FAMILY and "level" in record.notes


def _reach(record: Record) -> float:
    """The score of largest magnitude, with its sign."""
    return max(record.scores or (0.0,), key=abs)


def _point(level: float, records: Sequence[Record], fmt: str) -> Point | None:
    record = facts.worst(records)
    if record is None or record.finding is None:
        return None
    found = record.finding
    if record.verdict is Verdict.FAIL and facts.nonfinite(found):
        return Point(level, None, facts.bound_in_ulps(found, fmt), record)
    if found.ulps is None or not math.isfinite(found.ulps):
        return None  # an infinity that the truth has, or that the model permits
    return Point(level, found.ulps, facts.bound_in_ulps(found, fmt), record)


def thresholds(format_name: str) -> list[tuple[float, str]]:
    """Scores at which the arithmetic of a format changes, and the labels of their lines."""
    found: list[tuple[float, str]] = []
    for name in dict.fromkeys((format_name, "fp32")):
        fmt = FORMATS.get(name)
        if fmt is None:
            continue
        near = [
            (math.log(fmt.largest), f"overflow {name}"),
            (math.log(fmt.smallest_normal), f"subnormal {name}"),
            (math.log(fmt.smallest / 2), f"zero {name}"),
        ]
        if fmt.largest < BEND:
            near += [(fmt.largest, f"largest {name}"), (-fmt.largest, f"lowest {name}")]
        found += [n for n in near if not any(abs(n[0] - f[0]) < 0.1 for f in found)]
    return found


def _forward(x: Any) -> Any:
    """Nearly linear to 10, logarithmic to BEND, and pressed together beyond."""
    import numpy as np

    x = np.asarray(x, float)
    size = np.minimum(np.abs(x), BEND)
    beyond = np.log10(np.maximum(np.abs(x), BEND) / BEND) / 22
    return np.sign(x) * (np.arcsinh(size / 8) + beyond)


def _inverse(y: Any) -> Any:
    import numpy as np

    y = np.asarray(y, float)
    knee = math.asinh(BEND / 8)
    beyond = np.maximum(np.abs(y) - knee, 0) * 22
    return np.sign(y) * np.sinh(np.minimum(np.abs(y), knee)) * 8 * 10 ** np.minimum(beyond, 300)


def _chart(key: tuple[str, str], fmt: str, lines: Sequence[Line]) -> str:
    lost = [item for item in lines if item.lost]
    told = "; ".join(f"{i.title}: {plural(i.lost, 'level')} of {len(i.points)}" for i in lost)
    text = f"NaN or infinite output: {told or 'none'}."
    return figure(
        f"Error against score range: {facts.group_title(key)}, {fmt}",
        f"{facts.group_title(key).capitalize()}, {fmt}. {text}",
        text,
        SIZE,
        lambda canvas: _paint(canvas, fmt, lines),
        below=render(NUMBERS, legend=_legend(lines), told=_told(fmt), table=_numbers(lines)),
    )


EFFECTS = {"overflow": "exp overflows", "subnormal": "exp is subnormal", "zero": "exp is 0"}


def _told(fmt: str) -> str:
    """The thresholds of a format in words."""
    told = []
    for x, label in thresholds(fmt):
        kind, name = label.split()
        what = f"{EFFECTS[kind]} in {name}" if kind in EFFECTS else label
        told.append(f"{what} {'from' if x > 0 else 'below'} {number(x, 5)}".replace("-", "−"))
    return "Dotted lines: " + ", ".join(told)


def _legend(lines: Sequence[Line]) -> str:
    statuses = [facts.status(item.certificate) for item in lines]
    return legend([f"{i.title} {s.symbol} {s.word}" for i, s in zip(lines, statuses, strict=True)])


def _numbers(lines: Sequence[Line]) -> str:
    columns = [
        Column("Kernel and format"),
        Column("Score level", True),
        Column("Error (ulp)", True),
    ]
    columns += [Column("Bound (ulp)", True), Column("Case")]
    rows = []
    for item in lines:
        for p in item.points:
            error = quantity(p.ulps) if p.ulps is not None else Cell(_word(p), math.inf, "num")
            cells = [Cell(item.title), quantity(p.level), error, quantity(p.bound)]
            rows.append([*cells, Cell(p.record.case.removeprefix(f"{FAMILY}/"))])
    return table("Error and bound at each score level", columns, rows)


def _word(point: Point) -> str:
    assert point.record.finding is not None
    return number(float(point.record.finding.value))


def _paint(canvas: Figure, fmt: str, lines: Sequence[Line]) -> None:
    axes = canvas.add_subplot()
    found = [v for item in lines for p in item.points for v in (p.ulps, p.bound)]
    sizes = [v for v in found if v is not None and math.isfinite(v)]
    top = 10.0 ** (math.ceil(math.log10(min(max([*sizes, 2.0]), 1e12))) + 0.6)
    band = top * 3
    axes.set_yscale("log")
    axes.set_xscale("function", functions=(_forward, _inverse))
    axes.set_ylim(FLOOR / 1.6, band * 3)
    axes.set_xlim(-1e42, 1e42)
    axes.grid(axis="y")
    _ticks(axes, top)
    axes.axhspan(top, band * 3, color=BAD, alpha=0.1, linewidth=0)
    axes.text(
        0,
        band * 2.6,
        "NaN or infinite",
        color=BAD,
        ha="center",
        va="top",
        fontsize=11,
        weight="bold",
    )
    _mark_thresholds(axes, fmt, top)
    for index, item in enumerate(lines):
        _draw(axes, index, item, top, band)
    axes.set_xlabel("score of the largest key (exact; logarithmic beyond 10)")
    axes.set_ylabel("error and bound in ulp")


def _ticks(axes: Axes, top: float) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    axes.xaxis.set_major_locator(FixedLocator(TICKS))
    axes.xaxis.set_minor_locator(NullLocator())
    names = ["−3e38", "−1e5", "−1000", "−100", "−10", "0", "10", "100", "1000", "1e5", "3e38"]
    axes.set_xticklabels(names)
    decades = range(-2, math.ceil(math.log10(top)))
    step = max(1, len(decades) // 6)
    chosen = [10.0**k for k in list(decades)[::step]]
    axes.yaxis.set_major_locator(FixedLocator(chosen))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_yticklabels([number(c) for c in chosen])


def _mark_thresholds(axes: Axes, fmt: str, top: float) -> None:
    placed: list[float] = []
    for x, text in thresholds(fmt):
        axes.axvline(x, color=MUTED, linewidth=0.9, linestyle=":")
        left = text.startswith(("zero", "lowest"))
        at = float(_forward(x))
        # Labels of lines that nearly coincide stand on either side, then one above the other.
        crowded = left and any(abs(at - other) < 0.4 for other in placed)
        placed += [at] if left else []
        axes.annotate(
            text,
            (x, FLOOR),
            xytext=(-2 if left else 2, 74 if crowded else 0),
            textcoords="offset points",
            rotation=90,
            ha="right" if left else "left",
            va="bottom",
            fontsize=9,
            color=MUTED,
        )


def _draw(axes: Axes, index: int, item: Line, top: float, band: float) -> None:
    colour, marker = style_of(index)
    x = [p.level for p in item.points]
    y = [band if p.ulps is None else min(max(p.ulps, FLOOR), top) for p in item.points]
    (solid,) = axes.plot(x, y, color=colour, marker=marker, markersize=4.5, linewidth=1.4)
    solid.set_gid(f"series-{index}")
    bounds = [(p.level, p.bound) for p in item.points if p.bound and math.isfinite(p.bound)]
    if bounds:
        shown = [min(max(b, FLOOR), top) for _, b in bounds]
        (dashed,) = axes.plot(
            [b[0] for b in bounds], shown, color=colour, linestyle=(0, (4, 2)), linewidth=1
        )
        dashed.set_gid(f"series-{index}")
    out = [p.level for p in item.points if p.ulps is None]
    if out:
        (crosses,) = axes.plot(
            out, [band] * len(out), "X", color=BAD, markersize=9, markeredgecolor=GRID
        )
        crosses.set_gid(f"series-{index}")


def _html(certificates: Sequence[Certificate]) -> str:
    charts = []
    for key, found in facts.groups(certificates).items():
        for fmt in facts.formats(found):
            chosen = [c for c in found if c.format == fmt]
            lines = [line(t, c) for t, c in zip(facts.titles(chosen), chosen, strict=True)]
            lines = [item for item in lines if item.points]
            if lines:
                charts.append(_chart(key, fmt, lines))
    return render(TEMPLATE, charts=charts)


SECTION = Section(50, "Error against score range", _html)
