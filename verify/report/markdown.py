"""The Markdown summary: short enough for a CI job page or a pull request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from verify.certificate import Certificate
from verify.report.section import Section

_SPECIAL = str.maketrans(
    {c: f"\\{c}" for c in "\\`*_{}[]|#"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;", "\n": " "}
)


def markdown(
    certificates: Sequence[Certificate], sections: Mapping[str, Section]
) -> tuple[str, dict[str, Exception]]:
    """The text, and what the sections raised."""
    problems: dict[str, Exception] = {}
    parts = []
    for name, section in sections.items():
        if section.markdown is None:
            continue
        try:
            text = section.markdown(certificates)
        except Exception as error:
            problems[name] = error
            text = f"**{section.title} could not be drawn:** {escape(f'{error}')}"
        parts.append(text.strip())
    return "\n\n".join(part for part in parts if part) + "\n", problems


def escape(text: object) -> str:
    """Text that Markdown shows as it is."""
    return str(text).translate(_SPECIAL)


def code(text: str) -> str:
    """A code span; backticks and line ends inside it would end it."""
    return "`" + text.replace("`", "'").replace("\n", " ").replace("|", "\\|") + "`"


def row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
