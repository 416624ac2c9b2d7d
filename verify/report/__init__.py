"""Report: certificates become one self-contained HTML page, Markdown, CSV and JUnit XML.

A report receives certificates only.  A section is a module under `verify.report.sections`; one that
raises becomes a notice in its place, the rest of the report is written, and `ReportError` says so.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from verify.certificate import Certificate, write_atomically
from verify.errors import AttncertError
from verify.report.section import Section

__all__ = ["SECTIONS", "ReportError", "write_report"]


class ReportError(AttncertError):
    """The report is written, but sections of it could not be drawn: our own error.

    paths      the files that were written
    problems   section name -> what it raised
    """

    def __init__(self, paths: list[Path], problems: Mapping[str, Exception]) -> None:
        told = "; ".join(f"{n}: {type(e).__name__}: {e}" for n, e in problems.items())
        super().__init__(f"the report is written, but sections of it could not be drawn: {told}")
        self.paths = paths
        self.problems = problems


class _Sections(Mapping[str, Section]):
    """Sections by name, in the order of the page; found when they are first asked for."""

    def __getitem__(self, name: str) -> Section:
        return _discovered()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_discovered())

    def __len__(self) -> int:
        return len(_discovered())


@cache
def _discovered() -> dict[str, Section]:
    from verify.report import sections

    found = {}
    for module in pkgutil.iter_modules(sections.__path__):
        section = importlib.import_module(f"{sections.__name__}.{module.name}").SECTION
        if not isinstance(section, Section):
            raise TypeError(f"verify/report/sections/{module.name}.py must define SECTION")
        found[module.name] = section
    return dict(sorted(found.items(), key=lambda item: (item[1].order, item[0])))


SECTIONS: Mapping[str, Section] = _Sections()


def write_report(
    certificates: Sequence[Certificate], folder: Path, more: Mapping[str, Section] | None = None
) -> list[Path]:
    """Write report.html and .md, results.csv, junit.xml and summary.json, each whole or not at all.

    more        sections beside those of this package, by name
    Returns     the paths written; equal certificates give equal bytes, in whatever order they come.
    Raises      ReportError after everything was written, where a section could not be drawn.
    """
    from verify.report import facts, junit, markdown, page, results_csv, summary_json

    ordered = facts.arranged(certificates)
    found = {**SECTIONS, **(more or {})}
    html, html_problems = page.page(ordered, found)
    summary, markdown_problems = markdown.markdown(ordered, found)
    texts = {
        "report.html": html,
        "report.md": summary,
        "results.csv": results_csv.csv_text(ordered),
        "junit.xml": junit.junit(ordered),
        "summary.json": summary_json.json_text(ordered),
    }
    for file, text in texts.items():
        write_atomically(folder / file, text)
    paths = [folder / file for file in texts]
    problems = {**markdown_problems, **html_problems}
    if problems:
        raise ReportError(paths, problems)
    return paths
