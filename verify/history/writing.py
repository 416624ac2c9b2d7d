"""Writing: history.html and history.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from verify.certificate import write_atomically
from verify.history.drawing import markdown, section
from verify.history.trend import Trend, Version
from verify.report import ReportError
from verify.report.page import page

TITLE = "How did these kernels change?"
LEAD = (
    "The certificates of each version, side by side. Each kernel was run on inputs chosen to break "
    "it, and its error compared with a bound that is proved from what it declares."
)


def write_history(found: Sequence[Version], trends: Sequence[Trend], folder: Path) -> list[Path]:
    """Write both files, each whole or not at all.

    Raises      ReportError where the history could not be drawn: our own error.
    """
    names = [version.name for version in found]
    certificates = [c for version in found for c in version.side.certificates]
    sections = {"history": section(trends, names)}
    html, problems = page(certificates, sections, title=TITLE, lead=LEAD)
    texts = {"history.html": html, "history.md": f"## {TITLE}\n\n{markdown(trends, names)}"}
    for file, text in texts.items():
        write_atomically(folder / file, text)
    paths = [folder / file for file in texts]
    if problems:
        raise ReportError(paths, problems)
    return paths
