"""How much of its bound each kernel uses, over all cases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median, quantiles
from typing import TYPE_CHECKING

from verify.certificate import Certificate
from verify.judge import Verdict
from verify.report import facts
from verify.report.figure import BAD, INK, MUTED, SERIES, figure
from verify.report.section import Section
from verify.report.template import render
from verify.report.words import number, plural, ratio

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEAD, LINE = 760.0, 70.0, 22.0
LOWEST = 1e-3
NAME = 44  # letters of a kernel's name that fit beside the picture

TEMPLATE = """
<p>Error divided by bound, one kernel and format a line. The line in the box is the middle case, the
box holds half of the cases, the dot is the worst one. <strong>Nothing may lie right of 1.</strong>
A box far left of 1 is no merit by itself: there the bound is loose, or the kernel computes better
than it declares.</p>
{% for chart in charts %}{{ chart }}{% endfor %}
"""


def _values(certificate: Certificate) -> list[float]:
    ratios = [r.tightness for r in facts.judged(certificate) if not _class_failed(r)]
    return [min(max(t, LOWEST), 1e6) for t in ratios if t is not None and not math.isnan(t)]


def _class_failed(record: object) -> bool:
    return getattr(record, "verdict", None) is Verdict.FAIL and facts.nonfinite(
        getattr(record, "finding", None)
    )


def _chart(key: tuple[str, str], certificates: Sequence[Certificate]) -> str:
    titles = facts.titles(certificates)
    worst = [(t, facts.largest_tightness(c)) for t, c in zip(titles, certificates, strict=True)]
    over = [f"{t} ({ratio(x)})" for t, x in worst if x is not None and x > 1]
    lost = [t for t, c in zip(titles, certificates, strict=True) if facts.lost_values(c)]
    text = f"Above the bound: {', '.join(over) or 'none'}. "
    text += f"NaN or infinite: {', '.join(lost) or 'none'}."
    size = (WIDTH, HEAD + LINE * len(certificates))
    title = f"Error over bound: {facts.group_title(key)}"
    counted = plural(sum(len(facts.judged(c)) for c in certificates), "judged case")
    caption = f"{facts.group_title(key).capitalize()}: {counted}. {text}"
    return figure(title, caption, text, size, lambda canvas: _paint(canvas, titles, certificates))


def _paint(canvas: Figure, titles: Sequence[str], certificates: Sequence[Certificate]) -> None:
    axes = canvas.add_subplot()
    axes.set_xscale("log")
    axes.set_ylim(len(titles) - 0.4, -0.6)
    axes.set_yticks(range(len(titles)), [_short(t) for t in titles])
    axes.tick_params(axis="y", length=0)
    found = [_values(c) for c in certificates]
    high = max([3.0, *(v for values in found for v in values)])
    lost = high * 4
    axes.set_xlim(LOWEST * 0.8, lost * 2)
    axes.axvline(1, color=INK, linewidth=1.6)
    axes.axvspan(1, lost * 2, color=BAD, alpha=0.1, linewidth=0)
    axes.grid(axis="x")
    for at, (certificate, values) in enumerate(zip(certificates, found, strict=True)):
        _draw(axes, at, values)
        if facts.lost_values(certificate):
            axes.plot([lost], [at], "X", color=BAD, markersize=9)
    _ticks(axes, high, lost)
    axes.set_xlabel("error / bound (the bound is at 1)")


def _ticks(axes: Axes, high: float, lost: float) -> None:
    from matplotlib.ticker import NullLocator

    decades = [10.0**k for k in range(-3, math.floor(math.log10(high)) + 1)]
    shown = decades[:: max(1, len(decades) // 7)]
    if 1.0 not in shown:
        shown.append(1.0)
    axes.set_xticks([*sorted(shown), lost], [*(number(t) for t in sorted(shown)), "NaN or ∞"])
    axes.xaxis.set_minor_locator(NullLocator())


def _draw(axes: Axes, at: int, values: Sequence[float]) -> None:
    if not values:
        return
    low, high = min(values), max(values)
    axes.plot([low, high], [at, at], color=MUTED, linewidth=1)
    if len(values) > 2:
        first, _, third = quantiles(values, n=4, method="inclusive")
        axes.barh(
            at, third - first, left=first, height=0.55, color=SERIES[0], alpha=0.5, linewidth=0
        )
    middle = median(values)
    axes.plot([middle, middle], [at - 0.27, at + 0.27], color=SERIES[0], linewidth=2)
    axes.plot([high], [at], "o", color=BAD if high > 1 else SERIES[0], markersize=5)


def _short(title: str) -> str:
    return title if len(title) <= NAME else f"{title[: NAME - 12]}…{title[-11:]}"


def _html(certificates: Sequence[Certificate]) -> str:
    groups = facts.groups(certificates)
    charts = [_chart(k, found) for k, found in groups.items() if any(map(_values, found))]
    return render(TEMPLATE, charts=charts) if charts else ""


SECTION = Section(80, "How much of the bound is used", _html)
