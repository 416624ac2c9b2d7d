"""Studies: claims and published figures, measured with exact truth and given a verdict each.

A study is a package here; each module in it is one claim or paper and defines `part`, a function
that measures and returns a `Part` (see `verify.studies.document`).  Studies compare and explain:
they certify no kernel, and the kernels that they run share the process with the truth.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from verify.errors import UsageError

if TYPE_CHECKING:
    from verify.report.section import Section
    from verify.studies.document import Document

STUDIES = ("scaling", "papers")


def run(name: str, *, small: bool = False) -> Document:
    """Run a study. Raises UsageError for an unknown name."""
    import importlib

    if name not in STUDIES:
        raise UsageError(f"unknown study {name!r}: use one of {', '.join(STUDIES)}")
    found: Document = importlib.import_module(f"{__name__}.{name}").study(small=small)
    return found


def write(document: Document, folder: Path) -> list[Path]:
    """Write NAME.study.json, NAME.md and NAME.html, each whole or not at all."""
    from verify.certificate import STUDY_SUFFIX, write_atomically
    from verify.studies.pages import html_page, markdown

    texts = {
        f"{document.study}{STUDY_SUFFIX}": document.to_json(),
        f"{document.study}.md": markdown(document),
        f"{document.study}.html": html_page(document),
    }
    for file, text in texts.items():
        write_atomically(folder / file, text)
    return [folder / file for file in texts]


def sections(sources: Iterable[Path]) -> dict[str, Section]:
    """A section of the main report for each study that lies among the sources."""
    from verify.certificate import STUDY_SUFFIX
    from verify.studies.document import read
    from verify.studies.pages import section

    files = [f for s in sources for f in (sorted(s.glob(f"*{STUDY_SUFFIX}")) if s.is_dir() else [])]
    documents = [read(file) for file in files]
    return {f"study-{document.study}": section(document) for document in documents}
