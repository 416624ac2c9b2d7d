"""What was not run, and why: grouped by reason, nothing left out silently."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from verify.certificate import Certificate
from verify.report import facts
from verify.report.section import Section
from verify.report.template import render
from verify.report.words import count, plural, words

TEMPLATE = """
<p>{{ total }}</p>
{% for group in groups %}
<details><summary><strong>{{ group.count }}</strong>: {{ group.reason }}</summary>
<ul>
{% for title, families in group.lines %}
<li><strong>{{ title }}</strong>: {{ families }}</li>
{% endfor %}
</ul>
</details>
{% endfor %}
{% if missing %}
<p><strong>Planned, but neither run nor skipped with a reason</strong> (the verdict is at best
INCONCLUSIVE):</p>
<ul>{% for title, gap in missing %}<li>{{ title }}: {{ gap }}</li>{% endfor %}</ul>
{% endif %}
{% if groups %}
<p class="note">results.csv beside this page lists every skipped case by its id.</p>
{% endif %}
"""


def groups(certificates: Sequence[Certificate]) -> list[dict[str, object]]:
    """Reasons, the most frequent first, with the kernels and families that they concern."""
    counts = facts.reasons_skipped(certificates)
    ordered = sorted(counts.items(), key=lambda item: (-item[1].total(), item[0]))
    return [
        {"reason": reason, "count": plural(found.total(), "case"), "lines": _lines(found)}
        for reason, found in ordered
    ]


def _lines(found: Counter[tuple[str, str]]) -> list[tuple[str, str]]:
    """Families with counts; kernels that skip the same stand in one line."""
    families: dict[str, list[str]] = defaultdict(list)
    for (title, family), cases in sorted(found.items()):
        families[title].append(f"{words(family)} ({cases})")
    titles: dict[str, list[str]] = defaultdict(list)
    for title, listed in families.items():
        titles[", ".join(listed)].append(title)
    return [(", ".join(same), listed) for listed, same in titles.items()]


def _html(certificates: Sequence[Certificate]) -> str:
    skipped = sum(len(c.skipped) for c in certificates)
    planned = sum(c.planned for c in certificates)
    done = sum(map(facts.run, certificates))
    missing = [
        (title, plural(gap, "case"))
        for title, c in zip(facts.titles(certificates), certificates, strict=True)
        if (gap := facts.missing(c)) > 0
    ]
    rest = f"{count(skipped)} were not, for these reasons:" if skipped else "none was skipped."
    total = f"Of {plural(planned, 'planned case')}, {count(done)} were run; {rest}"
    return render(TEMPLATE, total=total, groups=groups(certificates), missing=missing)


SECTION = Section(150, "What was skipped, and why", _html)
