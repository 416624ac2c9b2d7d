"""The banner: what came out against what is expected, kernel by kernel, and the decision rule."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from verify.certificate import Certificate
from verify.judge import Verdict
from verify.report import facts, refutation
from verify.report.markdown import escape
from verify.report.section import Section
from verify.report.table import Cell, Column, table
from verify.report.template import render
from verify.report.words import (
    DECISION_RULE,
    NOT_CERTIFIABLE,
    RULE_OF_WORST,
    STATUS,
    plural,
    words,
)

TEMPLATE = """
<div class="banner {{ css }}" role="status">
<p class="headline">{{ '✗' if css == 'bad' else '⚑' if css == 'known' else '✓' }} {{ headline }}</p>
<p>{{ detail }}</p>
{% if surprises %}<ul>{% for title, text in surprises %}
<li><strong>{{ title }}</strong>: {{ text }}</li>{% endfor %}</ul>{% endif %}
</div>
{% for glance in glances %}{{ glance }}{% endfor %}
<h3>How it is decided</h3>
<p class="rule">{{ rule }}</p>
<p>{{ worst }}</p>
<details><summary>What each verdict means</summary>
<dl class="words">{% for status in statuses %}
<dt class="verdict {{ status.css }}">{{ status.symbol }} {{ status.word }}</dt>
<dd>{{ status.meaning }}</dd>
{% endfor %}</dl></details>
"""


def headline(certificates: Sequence[Certificate]) -> tuple[bool, str, str]:
    """Whether all is as expected, and that in a short and a longer sentence."""
    if not certificates:
        return False, "Nothing is certified", "No certificate was given."
    surprises = [c for c in certificates if not facts.as_expected(c)]
    counts = Counter(facts.status(c).word for c in certificates)
    found = _found(certificates)
    meant = sum(c.expected == "fail" for c in certificates) - found
    told = ", ".join(f"{n} {w}" for w, n in counts.most_common())
    detail = f"{plural(len(certificates), 'certificate')} (a kernel in a format): {told}."
    if meant:
        detail += f" {meant} of them {'is' if meant == 1 else 'are'} shipped to be refuted."
    if found:
        detail += f" Known findings among them: {found}."
    if surprises:
        some = plural(len(surprises), "verdict is", "verdicts are")
        return False, f"{some} not as expected", detail
    if found:
        right = len(certificates) - found - meant
        head = f"{right} of {len(certificates)} as declared; {found} refuted, as known"
        return True, head, detail
    if meant == len(certificates):
        return True, "Every kernel is refuted, as it must be", detail
    if meant:
        return (
            True,
            "Every kernel that should be right is certified; the others are refuted",
            detail,
        )
    return True, "Every kernel is certified", detail


def _found(certificates: Sequence[Certificate]) -> int:
    """How many certificates hold a refutation that is known and published."""
    return sum("refuted" in c.kernel for c in certificates)


def surprise(certificate: Certificate) -> str:
    """Why a verdict is not the expected one."""
    status = facts.status(certificate).word
    if certificate.expected == "fail":
        return f"{status}, although this kernel is shipped to be refuted"
    return f"{status}, {cause(certificate)}"


def cause(certificate: Certificate) -> str:
    """The family and the sentence of the record that made the verdict."""
    record = facts.worst(certificate.records)
    gap = facts.missing(certificate)
    if record is None:
        return next((s.reason for s in certificate.skipped), "no case was run")
    if gap and record.verdict is not certificate.verdict:
        return f"{plural(gap, 'planned case is', 'planned cases are')} missing"
    return f"{words(record.family)}: {refutation.sentence(record)}"


def _glance(key: tuple[str, str], certificates: Sequence[Certificate]) -> str:
    """One line per kernel, one column per format: the verdict, and why where it is not PASS."""
    formats = facts.formats(certificates)
    kernels: dict[str, list[Certificate]] = defaultdict(list)
    for certificate in certificates:
        kernels[facts.name(certificate)].append(certificate)
    rows = []
    for name, found in kernels.items():
        cells = [_verdicts([c for c in found if c.format == f]) for f in formats]
        rows.append([Cell(name, heads_row=True), *cells, Cell(_why(found), css="why")])
    columns = [Column("Kernel"), *map(Column, formats), Column("What it is, or why not")]
    return table(
        f"Verdicts: {facts.group_title(key)}", columns, rows, filterable=False, css="glance"
    )


def _verdicts(certificates: Sequence[Certificate]) -> Cell:
    """The verdict of a kernel in a format (the worst, where there are several certificates)."""
    if not certificates:
        return Cell("—", "", "verdict none")
    order = list(Verdict)
    chosen = min(certificates, key=lambda c: order.index(c.verdict))
    status = facts.status(chosen)
    grade = f", grade {chosen.grade.letter}" if chosen.grade and status.css == "pass" else ""
    mark = "" if facts.as_expected(chosen) else " (unexpected)"
    if chosen.expected == "fail" and facts.as_expected(chosen):
        mark = " (a known finding)" if "refuted" in chosen.kernel else " (as it must)"
    return Cell(f"{status.symbol} {status.word}{grade}{mark}", status.word, f"verdict {status.css}")


def _why(certificates: Sequence[Certificate]) -> str:
    troubled = [c for c in certificates if c.verdict is not Verdict.PASS]
    if not troubled:
        return str(certificates[0].kernel.get("summary", ""))
    order = list(Verdict)
    chosen = min(troubled, key=lambda c: order.index(c.verdict))
    reason = chosen.kernel.get("refuted")
    if reason is not None:
        same = [c.format for c in troubled if c.kernel.get("refuted") == reason]
        return f"{', '.join(same)}: {reason}"
    return f"{chosen.format}: {cause(chosen)}"


def _html(certificates: Sequence[Certificate]) -> str:
    good, head, detail = headline(certificates)
    surprises = [
        (title, surprise(c))
        for title, c in zip(facts.titles(certificates), certificates, strict=True)
        if not facts.as_expected(c)
    ]
    return render(
        TEMPLATE,
        css="bad" if not good else "known" if _found(certificates) else "good",
        headline=head,
        detail=detail,
        surprises=surprises,
        glances=[_glance(key, found) for key, found in facts.groups(certificates).items()],
        rule=DECISION_RULE,
        worst=RULE_OF_WORST,
        statuses=[*STATUS.values(), NOT_CERTIFIABLE],
    )


def _markdown(certificates: Sequence[Certificate]) -> str:
    good, head, detail = headline(certificates)
    told = [detail, *(f"{', '.join(t)}: {way.meaning}." for way, t in facts.ways(certificates))]
    symbol = "❌" if not good else "⚠️" if _found(certificates) else "✅"
    return f"## {symbol} attncert: {escape(head)}\n\n{escape(' '.join(told))}"


SECTION = Section(10, "Verdict", _html, _markdown)
