"""What this does not prove: the limits of every statement in the page."""

from __future__ import annotations

from collections.abc import Sequence

from verify.certificate import Certificate
from verify.judge import Verdict
from verify.report import facts
from verify.report.section import Section
from verify.report.template import render
from verify.report.words import plural

GENERAL = (
    """A FAIL is a proof: the printed element contradicts the declared arithmetic. A PASS is not: it
    says that no case which was run contradicts it. Other inputs may.""",
    """The bound is that of the arithmetic that the kernel declares. A kernel that declares coarse
    arithmetic has a generous bound; compare grades and ulp errors, not only verdicts.""",
    """The truth is that of the stored inputs. What was lost when the inputs were rounded to their
    format is not the kernel's error, and is not in these numbers.""",
    """Averages, histograms and marks of the statistical tier describe the cases that were run,
    which are adversarial on purpose; they decide nothing.""",
    """A certificate holds for the device, the versions and the shapes that it names. Another device
    may run other code under the same name.""",
    "Verdicts and bounds speak of the forward pass, not of gradients, dropout or speed.",
)
TEMPLATE = """
<ul>
{% for text in limits %}<li>{{ text }}</li>{% endfor %}
</ul>
"""


def limits(certificates: Sequence[Certificate]) -> list[str]:
    """The general limits, and those of this set of certificates."""
    return [*(" ".join(text.split()) for text in GENERAL), *_of_this_set(certificates)]


def _of_this_set(certificates: Sequence[Certificate]) -> list[str]:
    records = [r for c in certificates for r in c.records]
    flagged = sum(1 for r in records if r.verdict is Verdict.OUT_OF_SCOPE)
    unsure = sum(1 for r in records if r.verdict is Verdict.INCONCLUSIVE)
    inside = [
        t
        for t, c in zip(facts.titles(certificates), certificates, strict=True)
        if c.isolation == "in-process"
    ]
    smoke = sum(c.profile == "smoke" for c in certificates)
    found = []
    if flagged:
        some = plural(flagged, "case is", "cases are")
        found.append(f"{some} out of scope of the bound: nothing is proved.")
    if unsure:
        found.append(f"{plural(unsure, 'case is', 'cases are')} inconclusive: nothing is proved.")
    if smoke:
        found.append(
            f"{plural(smoke, 'certificate')} used the profile smoke, which is not sufficient."
        )
    if inside:
        found.append(
            "Run in the process that holds the truth, so that a kernel could have read it: "
            + ", ".join(inside)
            + "."
        )
    return [*found, *_of_ways(certificates)]


def _of_ways(certificates: Sequence[Certificate]) -> list[str]:
    """What each way by which outputs came cannot prove, with the certificates that it concerns."""
    return [
        f"{', '.join(titles)}: {way.meaning}. This cannot prove {'; nor '.join(way.cannot_prove)}."
        for way, titles in facts.ways(certificates)
    ]


def _html(certificates: Sequence[Certificate]) -> str:
    return render(TEMPLATE, limits=limits(certificates))


SECTION = Section(160, "What this does not prove", _html)
