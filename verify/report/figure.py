"""Figures: matplotlib drawings as inline SVG that follows the page's light and dark colours.

Drawings use stand-in colours; each becomes a CSS variable of the page.  Text stays text, so that it
can be read out, searched and printed.
"""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from verify.report.template import render

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

INK, MUTED, GRID, BAD, GOOD, PAPER = (f"#0101{i:02x}" for i in range(1, 7))
# Okabe and Ito's colours, told apart also by readers who are colour-blind.
SERIES = tuple(f"#0202{i:02x}" for i in range(1, 8))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
MARKER_TEXT = ("●", "■", "▲", "◆", "▼", "✚", "✖", "◀", "▶")
VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    BAD: "var(--bad)",
    GOOD: "var(--good)",
    PAPER: "var(--paper)",
} | {c: f"var(--s{i})" for i, c in enumerate(SERIES, 1)}

# Two neighbouring paths that differ in their course alone.
PAIR = re.compile(r'<path d="([^"]*)"([^>]*)/><path d="([^"]*)"\2/>')

TEMPLATE = """
<figure class="chart">
<figcaption>{{ caption }}</figcaption>
<div class="scroll" role="region" tabindex="0" aria-label="{{ title }}">{{ svg }}</div>
{{ below }}
</figure>
"""

LEGEND = """
<ul class="legend" data-picks aria-label="Lines; press to bring out">
{% for colour, marker, title in items %}
<li><button type="button" aria-pressed="false" data-series="{{ loop.index0 }}">
<span style="color:{{ colour }}" aria-hidden="true">{{ marker }}</span>{{ title }}</button></li>
{% endfor %}
</ul>
"""


def figure(
    title: str,
    caption: str,
    text: str,
    size: tuple[float, float],
    paint: Callable[[Figure], None],
    below: str = "",
) -> Markup:
    """A figure with its caption.

    size    width and height in CSS pixels at full size; a narrow page scrolls it in its box
    text    what the picture shows, in words, for those who cannot see it
    below   markup under the picture: a legend, a table of its numbers
    """
    drawing = svg(title, text, size, paint)
    return render(TEMPLATE, title=title, caption=caption, svg=drawing, below=below)


def svg(
    title: str, text: str, size: tuple[float, float], paint: Callable[[Figure], None]
) -> Markup:
    """The drawing alone, labelled for screen readers."""
    drawn = _draw(size, paint)
    key = "f" + hashlib.sha256((title + drawn).encode()).hexdigest()[:8]
    return render(
        '<svg class="plot" role="img" aria-label="{{ label }}" viewBox="0 0 {{ w }} {{ h }}" '
        'style="width:{{ w }}px">{{ body }}</svg>',
        label=f"{title}. {text}",
        w=f"{size[0]:g}",
        h=f"{size[1]:g}",
        body=_markup(_compact(drawn, key)),
    )


def _draw(size: tuple[float, float], paint: Callable[[Figure], None]) -> str:
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    settings: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": "attncert",
        "path.simplify": False,
        "text.parse_math": False,  # a kernel's name may contain a dollar sign
        "font.size": 11,
        "axes.facecolor": "none",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.8,
        "axes.edgecolor": MUTED,
        "axes.labelcolor": INK,
        "text.color": INK,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "grid.color": GRID,
        "grid.linewidth": 0.6,
    }
    with rc_context(settings), warnings.catch_warnings():
        # Text stays text: the page's fonts have what matplotlib's own font lacks.
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        inches = (size[0] / 72, size[1] / 72)
        drawing = Figure(figsize=inches, dpi=72, facecolor="none", layout="constrained")
        paint(drawing)
        stream = io.StringIO()
        # Not savefig, which draws everything twice.
        canvas: Any = FigureCanvasSVG(drawing)
        canvas.print_svg(stream, metadata={"Date": None})
    return stream.getvalue()


def _compact(drawn: str, key: str) -> str:
    """The inside of the SVG: theme colours, short numbers, ids only where something refers to them,
    made unique in the page by `key`."""
    body = drawn[drawn.index("<svg") :]
    body = body[body.index(">") + 1 : body.rindex("</svg>")]
    body = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", body, flags=re.S)
    used = set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", body))
    body = re.sub(r"<[^>]+>", lambda tag: _tag(tag[0], used, key), re.sub(r">\s+<", "><", body))
    return _joined(_with_classes(body, key))


def _joined(body: str) -> str:
    """Neighbouring paths of one style as one path: a bar chart has thousands."""
    body = re.sub(r"<g>(<path [^>]*/>)</g>", r"\1", body)
    body = re.sub(r' d="([^"]*)"', lambda d: f' d="{_tight(d[1])}"', body)
    before = ""
    while body != before:
        before = body
        body = PAIR.sub(r'<path d="\1\3"\2/>', body)
    return body


def _tight(d: str) -> str:
    """The same path without the spaces that its letters make needless."""
    return re.sub(r"\s*([a-zA-Z])\s*", r"\1", d).strip()


def _with_classes(body: str, key: str) -> str:
    """Each style once, as a rule of a class; a drawing repeats few styles thousands of times."""
    classes: dict[str, str] = {}

    def name(style: re.Match[str]) -> str:
        return f' class="{classes.setdefault(style[1], f"{key}c{len(classes)}")}"'

    body = re.sub(r' style="([^"]*)"', name, body)
    rules = "".join(f"svg.plot .{name}{{{style}}}" for style, name in classes.items())
    return f"<style>{rules}</style>{body}"


def _tag(tag: str, used: set[str], key: str) -> str:
    tag = re.sub(r'\sid="series-(\d+)"', r' data-series="\1"', tag)
    tag = re.sub(r'\sid="([^"]*)"', lambda m: f' id="{key}{m[1]}"' if m[1] in used else "", tag)
    tag = re.sub(r'(url\(#|href="#)', rf"\g<1>{key}", tag).replace("xlink:href", "href")
    tag = re.sub(r"-?\d+\.\d{2,}", lambda m: f"{float(m[0]):.1f}".removesuffix(".0"), tag)
    tag = re.sub(r"font: (?:\w+ )?([\d.]+px) [^;\"]*", r"font-size: \1", tag)
    tag = re.sub(r"font-family: [^;\"]*;? ?", "", tag)  # that of the page
    tag = re.sub(r' transform="rotate\(-?0[ )][^"]*"', "", tag)
    tag = re.sub(r"#0[12]0[12]0\d", lambda m: VARIABLES.get(m[0], m[0]), tag)
    return re.sub(r"\s+", " ", tag).replace(": ", ":").replace("; ", ";")


def _markup(text: str) -> Markup:
    from markupsafe import Markup

    return Markup(text)


def style_of(index: int) -> tuple[str, str]:
    """Colour and marker of a series; no two of the first 63 share both."""
    return SERIES[index % len(SERIES)], MARKERS[(index + index // len(SERIES)) % len(MARKERS)]


def legend(titles: Sequence[str]) -> Markup:
    """Colour, marker and title of each series; pressing one brings its line out."""
    styles = [style_of(index) for index in range(len(titles))]
    items = [
        (VARIABLES[colour], MARKER_TEXT[MARKERS.index(marker)], title)
        for (colour, marker), title in zip(styles, titles, strict=True)
    ]
    return render(LEGEND, items=items)
