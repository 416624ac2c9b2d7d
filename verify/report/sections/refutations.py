"""Why a kernel is refuted: the worst case of each certificate that did not pass, as a card."""

from __future__ import annotations

from collections.abc import Sequence

from verify.certificate import Certificate, Record
from verify.judge import Verdict
from verify.report import facts, refutation
from verify.report.markdown import code, escape
from verify.report.section import Section
from verify.report.template import render
from verify.report.words import plural, words

SHOWN = (Verdict.INTEGRITY, Verdict.FAIL, Verdict.ERROR, Verdict.INCONCLUSIVE)
MOST_IN_MARKDOWN = 20
TEMPLATE = """
{% if not cards %}<p>No kernel is refuted and none is undecided.</p>{% else %}
<p>For each, the worst case in full. The command runs this one case again; run it in the folder of
the certificates.</p>
{% for c in cards %}
<details class="card-box"{% if c.open or loop.first %} open{% endif %}>
<summary><span class="verdict {{ c.status.css }}">{{ c.status.symbol }} {{ c.status.word }}</span>
<strong>{{ c.title }}</strong>{{ c.expected }}: {{ c.sentence }}</summary>
<p>{{ c.extent }}</p>
<dl class="card">
{% for name, text in c.card.lines %}<dt>{{ name }}</dt><dd>{{ text }}</dd>{% endfor %}
<dt>Reproduce</dt><dd><code>{{ c.card.command }}</code>
<button type="button" class="copy" hidden>Copy</button></dd></dl>
</details>
{% endfor %}{% endif %}
"""


def troubled(certificates: Sequence[Certificate]) -> list[tuple[str, Certificate, Record]]:
    """Title, certificate and worst record of each that did not pass; unexpected ones first."""
    found = []
    for title, certificate in zip(facts.titles(certificates), certificates, strict=True):
        record = facts.worst(r for r in certificate.records if r.verdict in SHOWN)
        if record is not None:
            found.append((title, certificate, record))
    return sorted(found, key=lambda item: facts.as_expected(item[1]))


def extent(certificate: Certificate, verdict: Verdict) -> str:
    """In how many cases and in which families the verdict was reached."""
    same = [r for r in certificate.records if r.verdict is verdict]
    families = sorted({words(r.family) for r in same})
    named = ", ".join(families[:6]) + (" and others" if len(families) > 6 else "")
    of = f"{plural(len(same), 'case')} of {facts.run(certificate)}"
    return f"{verdict} in {of}, in {plural(len(families), 'family', 'families')}: {named}."


def standing(certificate: Certificate) -> str:
    """That a refutation is known, and why; empty where it is news."""
    if not facts.as_expected(certificate):
        return ""
    found = certificate.kernel.get("refuted")
    return f"a known finding: {found}" if found else "as it must be"


def _html(certificates: Sequence[Certificate]) -> str:
    cards = [
        {
            "title": title,
            "status": facts.record_status(record),
            "open": not facts.as_expected(certificate),
            "expected": f" ({told})" if (told := standing(certificate)) else "",
            "sentence": refutation.sentence(record),
            "extent": extent(certificate, record.verdict),
            "card": refutation.card(certificate, record),
        }
        for title, certificate, record in troubled(certificates)
    ]
    return render(TEMPLATE, cards=cards)


def _markdown(certificates: Sequence[Certificate]) -> str:
    found = troubled(certificates)
    if not found:
        return ""
    lines = ["### What is refuted, and by what", ""]
    for title, certificate, record in found[:MOST_IN_MARKDOWN]:
        status = facts.record_status(record).word
        known = standing(certificate)
        mark = f"{status}, {escape(known)}" if known else status
        told = f"**{escape(title)}** ({mark}), {code(record.case)}: "
        lines.append(f"- {told}{escape(refutation.sentence(record))}  ")
        lines.append(f"  {code(facts.reproduce(certificate, record.case))}")
    rest = len(found) - MOST_IN_MARKDOWN
    if rest > 0:
        lines.append(f"- and {rest} more: see report.html")
    return "\n".join(lines)


SECTION = Section(30, "Why each refuted kernel is refuted", _html, _markdown)
