"""Section: one part of the report. One module under `verify.report.sections` defines one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from verify.certificate import Certificate

Render = Callable[[Sequence[Certificate]], str]


@dataclass(frozen=True)
class Section:
    """A function from certificates to an HTML fragment.

    order      place in the page; sections of equal order stand in the order of their names
    title      heading, and entry in the table of contents
    html       gives the fragment; an empty one leaves the section out
    markdown   the same for the CI summary; most sections have none
    """

    order: int
    title: str
    html: Render
    markdown: Render | None = None
