"""Tables: columns and cells as data; the page's script makes them sort and filter."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from verify.report.template import render_file
from verify.report.words import Status, number

if TYPE_CHECKING:
    from markupsafe import Markup


@dataclass(frozen=True)
class Column:
    """A heading; `help` is shown on hover and read out."""

    title: str
    numeric: bool = False
    help: str = ""


@dataclass(frozen=True)
class Cell:
    """One cell: what is shown, what it sorts by, and whether it names its row."""

    text: Any
    sort: float | str | None = None
    css: str = ""
    heads_row: bool = False

    @property
    def key(self) -> str | None:
        """The sort key as an attribute, None where the text is as good; NaN sorts last."""
        if not isinstance(self.sort, float):
            return None if self.sort is None else str(self.sort)
        if not math.isfinite(self.sort):
            return "-Infinity" if self.sort < 0 else "Infinity"
        key = f"{self.sort:.6g}"
        return None if _reads_as(str(self.text), key) else key


def _reads_as(text: str, key: str) -> bool:
    """Whether the page's script reads the same number from both: as JavaScript's Number does."""
    return bool(re.fullmatch(r"-?\d+(\.\d+)?(e[+-]?\d+)?", text)) and float(text) == float(key)


def quantity(value: float | None, css: str = "") -> Cell:
    """A number; it sorts by its value to six digits."""
    return Cell(number(value), -math.inf if value is None else float(value), f"num {css}".strip())


def verdict(status: Status) -> Cell:
    """A verdict: symbol and word."""
    return Cell(f"{status.symbol} {status.word}", status.word, f"verdict {status.css}")


def table(
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    *,
    filterable: bool = True,
    css: str = "",
) -> Markup:
    """A table in a box of its own that scrolls where the page is narrow."""
    few = len(rows) < 6
    return render_file(
        "table.jinja",
        caption=caption,
        columns=columns,
        rows=rows,
        filterable=filterable and not few,
        css=css,
    )
