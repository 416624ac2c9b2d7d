"""The Markdown summary: short enough for a CI job page or a pull request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from verify.certificate import Certificate
from verify.report.section import Section

_CONTROL = dict.fromkeys((*range(32), 127, 133, 8232, 8233), " ")
_SPECIAL = str.maketrans(
    {c: f"\\{c}" for c in "\\`*_{}[]|#"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
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
    """Text that Markdown shows as it is, on one line."""
    return str(text).translate(_CONTROL).translate(_SPECIAL)


def code(text: str) -> str:
    """A code span, in which nothing but a backtick is special."""
    return "`" + text.translate(_CONTROL).replace("`", "'") + "`"


def row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
