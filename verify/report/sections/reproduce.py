"""How to obtain the same results again."""

from __future__ import annotations

from collections.abc import Sequence

from verify.certificate import Certificate
from verify.report import facts
from verify.report.section import Section
from verify.report.template import render

TEMPLATE = """
<p>Inputs are made with integers only: the same version gives the same bits on every machine. Each
certificate names the SHA-256 of its inputs.</p>
<p>One case again, in the folder of the certificates:</p>
<p><code>{{ one }}</code> <button type="button" class="copy" hidden>Copy</button></p>
<p>The worst case of a certificate: replace the case by <code>worst</code>.</p>
<details{% if commands|length < 6 %} open{% endif %}>
<summary>The commands that made these certificates</summary>
<ul>{% for command in commands %}<li><code>{{ command }}</code></li>{% endfor %}</ul></details>
"""


def _html(certificates: Sequence[Certificate]) -> str:
    if not certificates:
        return ""
    first = next((c for c in certificates if c.records), None)
    record = facts.worst(first.records) if first else None
    one = (
        facts.reproduce(first, record.case) if first and record else "attncert reproduce FILE#CASE"
    )
    commands = list(dict.fromkeys(c.command for c in certificates if c.command))
    return render(TEMPLATE, one=one, commands=commands)


SECTION = Section(170, "How to reproduce", _html)
