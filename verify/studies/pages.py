"""A study as an HTML page, as Markdown, and as a section of the main report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from verify.report.markdown import escape, row
from verify.report.page import Part as PagePart
from verify.report.section import Section
from verify.report.table import Cell, Column, quantity, table
from verify.report.template import asset, render, render_file
from verify.report.words import number
from verify.studies.charts import picture
from verify.studies.document import (
    FALSE,
    HOLDS,
    LIMITED,
    NOT_MEASURED,
    Claim,
    Document,
    Number,
    Part,
    Table,
)

if TYPE_CHECKING:
    from markupsafe import Markup

SYMBOLS = {HOLDS: ("✓", "pass"), LIMITED: ("◐", "outside"), FALSE: ("✗", "fail"),
           NOT_MEASURED: ("–", "none")}  # fmt: skip

SMALL = "This is the small version that tests run: too small to say anything about the claims."
ABOUT = """
{% if not document.whole %}<p class="notice">{{ small }}</p>{% endif %}
<p>{{ document.inputs }}</p>
<p class="note">{% for name, value in document.environment.items() %}
{{ name }} {{ value }},
{% endfor %}made in {{ document.seconds }} s
({{ document.processor_seconds }} s of processor time).</p>
"""
CHARTS = '<div class="charts">{% for c in charts %}{{ c }}{% endfor %}</div>'
FRAGMENT = """
<p>{{ part.text }}</p>
{% for claim, symbol, css in claims %}
<p><strong class="verdict {{ css }}">{{ symbol }} {{ claim.judgement.verdict }}</strong>
{{ claim.says }}</p>
{% endfor %}
<div class="charts">{% for chart in charts %}{{ chart }}{% endfor %}</div>
{% for item in tables %}{{ item }}{% endfor %}
"""


def html_page(document: Document) -> str:
    """The study as one self-contained page."""
    parts = [PagePart("verdicts", "What holds?", html=_claims(document.claims))]
    parts += [PagePart(p.name, p.title, html=_fragment(p)) for p in document.parts]
    about = render(ABOUT, document=document, small=SMALL)
    parts.append(PagePart("inputs", "How was it measured?", html=about))
    page = render_file(
        "page.jinja",
        title=document.title,
        lead=document.lead,
        parts=parts,
        count="the measurements of this study",
        style=asset("page.css"),
        script=asset("page.js"),
    )
    return str(page)


def section(document: Document) -> Section:
    """The study as a section of the main report."""
    intro = render("<p>{{ lead }}</p>", lead=document.lead)

    def html(certificates: Any) -> str:
        charts = [picture(chart) for part in document.parts for chart in part.charts]
        drawn = render(CHARTS, charts=charts)
        about = render(ABOUT, document=document, small=SMALL)
        return intro + _claims(document.claims) + drawn + about

    def markdown(certificates: Any) -> str:
        return "\n".join([f"## {escape(document.title)}", "", *_claim_rows(document.claims)])

    return Section(140, document.title, html, markdown)


def _claims(claims: tuple[Claim, ...]) -> Markup:
    columns = (Column("Verdict"), Column("Claim"), Column("What was measured"), Column("Limits"),
               Column("Source"))  # fmt: skip
    return table("Claims and verdicts", columns, [_claim(c) for c in claims], filterable=False)


def _claim(claim: Claim) -> list[Cell]:
    found = claim.judgement
    symbol, css = SYMBOLS[found.verdict]
    return [
        Cell(f"{symbol} {found.verdict}", found.verdict, f"verdict {css}"),
        Cell(claim.says, css="wide"),
        Cell(found.figure, css="wide"),
        Cell(found.limits or "—", css="wide"),
        Cell(claim.source),
    ]


def _fragment(part: Part) -> Markup:
    return render(
        FRAGMENT,
        part=part,
        claims=[(claim, *SYMBOLS[claim.judgement.verdict]) for claim in part.claims],
        charts=[picture(chart) for chart in part.charts],
        tables=[_table(item) for item in part.tables],
    )


def _table(item: Table) -> Markup:
    columns = [Column(title, numeric=index > 0) for index, title in enumerate(item.columns)]
    rows = [[_cell(value, index) for index, value in enumerate(row)] for row in item.rows]
    shown = table(item.title, columns, rows, filterable=False)
    return render("{{ t }}{% if n %}<p class='note'>{{ n }}</p>{% endif %}", t=shown, n=item.note)


def _cell(value: str | Number, index: int) -> Cell:
    if isinstance(value, str):
        return Cell(value, css="" if index == 0 else "num", heads_row=index == 0)
    if isinstance(value, int):
        return Cell(str(value), value, "num")
    return quantity(value)


def markdown(document: Document) -> str:
    """The study as Markdown: claims, then every table and the numbers of every chart."""
    lines = [f"# {escape(document.title)}", "", escape(document.lead), ""]
    lines += [] if document.whole else [f"**{SMALL}**", ""]
    lines += [*_claim_rows(document.claims), ""]
    for part in document.parts:
        lines += [f"## {escape(part.title)}", "", escape(part.text), ""]
        for item in part.tables:
            lines += [*_markdown_table(item), ""]
        for chart in part.charts:
            lines += [escape(chart.caption), "", *_markdown_table(as_table(chart)), ""]
    environment = ", ".join(f"{name} {value}" for name, value in document.environment.items())
    lines += ["## How was it measured?", "", escape(document.inputs), ""]
    spent = f"{document.seconds} s ({document.processor_seconds} s of processor time)"
    lines += [escape(f"{environment}; made in {spent}.")]
    return "\n".join(lines) + "\n"


def as_table(chart: Any) -> Table:
    """The numbers of a chart, one row per x."""
    places = sorted({x for line in chart.lines for x in line.x})
    found = [dict(zip(line.x, line.y, strict=True)) for line in chart.lines]
    rows = tuple((number(x, 6), *(f.get(x) for f in found)) for x in places)
    columns = (chart.x_label, *(line.title for line in chart.lines))
    return Table(f"{chart.title}: {chart.y_label}", columns, rows)


def _claim_rows(claims: tuple[Claim, ...]) -> list[str]:
    lines = [row(["verdict", "claim", "measured", "limits"]), row(["---"] * 4)]
    for claim in claims:
        found = claim.judgement
        says = f"{claim.says} ({claim.source})"
        cells = [f"{SYMBOLS[found.verdict][0]} {found.verdict}", says, found.figure, found.limits]
        lines.append(row([escape(cell or "-") for cell in cells]))
    return lines


def _text(value: str | Number) -> str:
    return escape(value) if isinstance(value, (str, int)) else number(value)


def _markdown_table(item: Table) -> list[str]:
    lines = [f"**{escape(item.title)}**", "", row([escape(c) for c in item.columns])]
    lines.append(row(["---", *["---:"] * (len(item.columns) - 1)]))
    for values in item.rows:
        lines.append(row([_text(v) for v in values]))
    return lines + (["", escape(item.note)] if item.note else [])
