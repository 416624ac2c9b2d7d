"""The HTML page: all sections, the style sheet and the script in one file that needs no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from verify.certificate import Certificate
from verify.report.section import Section
from verify.report.template import asset, render_file
from verify.report.words import plural

TITLE = "How accurate are these kernels?"
LEAD = (
    "Each kernel was run on inputs chosen to break it. Its error against certified truth is "
    "compared with a bound that is proved from the arithmetic that the kernel declares."
)


@dataclass(frozen=True)
class Part:
    """One section as it stands in the page: a fragment, or the problem that prevented it."""

    id: str
    title: str
    html: str = ""
    problem: str = ""


def page(
    certificates: Sequence[Certificate],
    sections: Mapping[str, Section],
    title: str | None = None,
    lead: str = LEAD,
) -> tuple[str, dict[str, Exception]]:
    """The page, and what the sections raised."""
    problems: dict[str, Exception] = {}
    parts = [_part(name, s, certificates, problems) for name, s in sections.items()]
    html = render_file(
        "page.jinja",
        title=title or _title(certificates),
        lead=lead,
        parts=[part for part in parts if part.html or part.problem],
        count=plural(len(certificates), "certificate"),
        style=asset("page.css"),
        script=asset("page.js"),
    )
    return str(html), problems


def _title(certificates: Sequence[Certificate]) -> str:
    """The question, with the library and its version where all kernels belong to one."""
    owned = {next(iter(_packages(c).items()), None) for c in certificates}
    library = owned.pop() if len(owned) == 1 else None
    if library is None:
        return TITLE
    return f"How accurate is {' '.join(library)}?"


def _packages(certificate: Certificate) -> Mapping[str, str]:
    """Packages of the kernel and their versions, the library itself first."""
    found: Mapping[str, str] = certificate.kernel["identity"].get("package", {})
    return found


def _part(
    name: str,
    section: Section,
    certificates: Sequence[Certificate],
    problems: dict[str, Exception],
) -> Part:
    try:
        return Part(name, section.title, html=section.html(certificates))
    except Exception as error:
        problems[name] = error
        return Part(name, section.title, problem=f"{type(error).__name__}: {error}")
