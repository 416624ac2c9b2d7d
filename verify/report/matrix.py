"""Matrix: one row per family or property, one column per kernel and format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from verify.certificate import Certificate
from verify.report import facts
from verify.report.template import render

if TYPE_CHECKING:
    from markupsafe import Markup

TEMPLATE = """
<div class="scroll tall" role="region" tabindex="0" aria-label="{{ caption }}">
<table class="heat">
<caption>{{ caption }}</caption>
<thead>
<tr><th scope="col" rowspan="2">{{ corner }}</th>
{% for name, width in kernels %}
<th scope="colgroup" colspan="{{ width }}">{{ name }}</th>
{% endfor %}</tr>
<tr>{% for title in columns %}<th scope="col">{{ title }}</th>{% endfor %}</tr>
</thead>
<tbody>
{% for head, squares in rows %}
<tr><th scope="row">{{ head }}</th>
{%- for s in squares -%}
<td>
{%- if s is none -%}
<span class="none">–</span>
{%- elif s.card is none -%}
<span class="{{ s.css }}"{% if s.help %} title="{{ s.help }}"{% endif %}>{{ s.text }}</span>
{%- else -%}
<button class="{{ s.css }}" data-card="{{ s.card }}"
{%- if s.help %} title="{{ s.help }}"{% endif %}>{{ s.text }}</button>
{%- endif -%}
{%- endfor -%}
</tr>
{% endfor %}
</tbody></table></div>
"""


@dataclass(frozen=True)
class Square:
    """What one place shows; with a card it is a button that opens it."""

    text: str
    css: str
    help: str = ""
    card: int | None = None


Row = tuple[str, list[Square | None]]


def matrix(
    caption: str, corner: str, certificates: Sequence[Certificate], rows: Sequence[Row]
) -> Markup:
    """Columns stand in the order of the certificates, one heading per kernel over its formats."""
    names = [facts.name(c) for c in certificates]
    titles = facts.titles(certificates)
    return render(
        TEMPLATE,
        caption=caption,
        corner=corner,
        kernels=[(name, names.count(name)) for name in dict.fromkeys(names)],
        columns=[t.removeprefix(n).strip() for t, n in zip(titles, names, strict=True)],
        rows=rows,
    )
