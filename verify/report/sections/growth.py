"""Error growth with the number of keys n and the head dimension d, on one family."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from verify.certificate import Certificate, Record
from verify.judge import Verdict
from verify.report import facts
from verify.report.figure import figure, legend, style_of
from verify.report.section import Section
from verify.report.template import render
from verify.report.words import number, words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PREFERRED = "standard_normal"
SIZE = (430.0, 280.0)
FLOOR = 2.0**-10
LEAST = 3  # sizes that a line must have
AXES = {"n": ("n_k", "n"), "d": ("d",)}
UNITS = {
    "attention": "largest error / (u Σ P|v|)",
    "softmax": "largest error / (u truth)",
    "gradient": "largest error / (u Σ of absolute terms of dQ)",
}
KINDS = {"attention": "attention", "attention_backward": "gradient"}
MEANING = {"n": "number of keys n", "d": "head dimension d"}

TEMPLATE = """
<p>Largest error of a case against its size, on one family so that the sizes compare; all other
sizes vary as the family has them. The error is counted in units of what one rounding of the sum
Σ P|v| (in a softmax: of the result) may cost, so that cancellation in V does not show. A level line
means that the error does not grow.</p>
<div class="charts">{% for chart in charts %}{{ chart }}{% endfor %}</div>
"""
Series = Mapping[float, float]


def size_of(record: Record, axis: str) -> float | None:
    """The size of a record along an axis, as its family noted it."""
    return next((record.notes[n] for n in AXES[axis] if n in record.notes), None)


def family_with_most_sizes(certificates: Sequence[Certificate], axis: str) -> str | None:
    """The family that was run at most sizes; None where none was run at three."""
    sizes: dict[str, set[float]] = defaultdict(set)
    for certificate in certificates:
        for record in certificate.records:
            size = size_of(record, axis)
            if size is not None and size > 0:
                sizes[record.family].add(size)
    counts = Counter({family: len(found) for family, found in sizes.items() if len(found) >= LEAST})
    if PREFERRED in counts:
        return PREFERRED
    return max(sorted(counts), key=lambda f: counts[f], default=None)


def series(certificate: Certificate, family: str, axis: str) -> Series:
    """Largest finite scaled error per size."""
    found: dict[float, float] = {}
    for record in certificate.records:
        size, ulps = size_of(record, axis), facts.measures(record).get("max_scaled")
        if record.family != family or not size or ulps is None or record.verdict is Verdict.ERROR:
            continue
        if math.isfinite(float(ulps)):
            found[size] = max(found.get(size, 0.0), float(ulps))
    return dict(sorted(found.items()))


def _chart(key: tuple[str, str], fmt: str, axis: str, certificates: Sequence[Certificate]) -> str:
    family = family_with_most_sizes(certificates, axis)
    if family is None:
        return ""
    names = facts.titles(certificates)
    lines = {t: series(c, family, axis) for t, c in zip(names, certificates, strict=True)}
    lines = {t: found for t, found in lines.items() if len(found) >= LEAST}
    if not lines:
        return ""
    text = "; ".join(_told(t, found) for t, found in lines.items())
    unit = UNITS[KINDS.get(key[0], "softmax")]
    title = f"Error against {MEANING[axis]}: {facts.group_title(key)}, {fmt}"
    caption = f"{facts.group_title(key).capitalize()}, {fmt}, {MEANING[axis]}; {words(family)}."
    return figure(
        title,
        caption,
        text,
        SIZE,
        lambda canvas: _paint(canvas, axis, unit, lines),
        below=legend(list(lines)),
    )


def _told(title: str, found: Series) -> str:
    first, last = min(found), max(found)
    return (
        f"{title}: {number(found[first])} at {number(first, 6)}, "
        f"{number(found[last])} at {number(last, 6)}"
    )


def _paint(canvas: Figure, axis: str, unit: str, lines: Mapping[str, Series]) -> None:
    plot = canvas.add_subplot()
    plot.set_xscale("log", base=2)
    plot.set_yscale("log")
    for index, found in enumerate(lines.values()):
        colour, marker = style_of(index)
        y = [max(v, FLOOR) for v in found.values()]
        (drawn,) = plot.plot(
            list(found), y, color=colour, marker=marker, markersize=4.5, linewidth=1.4
        )
        drawn.set_gid(f"series-{index}")
    plot.grid(axis="y")
    plot.set_xlabel(MEANING[axis])
    plot.set_ylabel(unit)
    _ticks(plot, sorted({s for found in lines.values() for s in found}), lines)


def _ticks(plot: Axes, sizes: Sequence[float], lines: Mapping[str, Series]) -> None:
    from matplotlib.ticker import NullLocator

    apart: list[float] = []
    for size in sizes:
        if not apart or size >= apart[-1] * (sizes[-1] / sizes[0]) ** (1 / 9):
            apart.append(size)
    plot.set_xticks(apart, [number(s, 6) for s in apart])
    values = [max(v, FLOOR) for found in lines.values() for v in found.values()]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    ticks = [10.0**k for k in range(low, max(high, low + 1) + 1)]
    if len(ticks) <= 3:
        ticks = sorted(m * t for t in ticks for m in (1, 2, 5))
    plot.set_yticks(ticks, [number(t) for t in ticks])
    plot.set_ylim(min(values) / 1.5, max(values) * 1.5)
    plot.xaxis.set_minor_locator(NullLocator())
    plot.yaxis.set_minor_locator(NullLocator())


def _html(certificates: Sequence[Certificate]) -> str:
    charts = []
    for key, found in facts.groups(certificates).items():
        for fmt in facts.formats(found):
            chosen = [c for c in found if c.format == fmt]
            charts += [_chart(key, fmt, axis, chosen) for axis in AXES]
    charts = [chart for chart in charts if chart]
    return render(TEMPLATE, charts=charts) if charts else ""


SECTION = Section(90, "Error growth", _html)
