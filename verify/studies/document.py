"""What a study found, as plain data: claims with figures and verdicts, tables, charts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from verify.errors import UsageError

VERSION = 1

VerdictWord = Literal["holds", "holds with limits", "does not hold", "not measured"]
HOLDS: VerdictWord = "holds"
LIMITED: VerdictWord = "holds with limits"
FALSE: VerdictWord = "does not hold"
NOT_MEASURED: VerdictWord = "not measured"

Number = float | int | None


@dataclass(frozen=True)
class Judgement:
    """What the figures say of a claim.

    figure      the measured figures, in a sentence
    limits      where the claim stops to hold, or why it was not measured; empty for `holds`
    """

    verdict: VerdictWord
    figure: str
    limits: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in get_args(VerdictWord):
            raise UsageError(f"unknown verdict {self.verdict!r} of a claim")
        if self.verdict in (LIMITED, NOT_MEASURED) and not self.limits:
            raise UsageError(f"a claim that is {self.verdict!r} needs its limits or reason")


@dataclass(frozen=True)
class Claim:
    """A statement of others, quoted by content, with its source and what was found."""

    says: str
    source: str
    judgement: Judgement


@dataclass(frozen=True)
class Table:
    """Numbers with headings; the first column names the row. Text stays as it is."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | Number, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise UsageError(
                    f"{self.title}: {len(self.columns)} columns, but a row has {len(row)} cells"
                )


@dataclass(frozen=True)
class Line:
    """One line of a chart; None and NaN leave a gap."""

    title: str
    x: tuple[float, ...]
    y: tuple[Number, ...]


@dataclass(frozen=True)
class Chart:
    """Lines over one axis.

    x_base, y_base  0: linear; else the base of a logarithmic axis
    floor           on a logarithmic axis, values below it (and 0) are drawn on it
    levels          horizontal marks, (value, words)
    """

    title: str
    caption: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    x_base: int = 0
    y_base: int = 0
    floor: float = 0.0
    levels: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True)
class Part:
    """One claim or paper: text, claims, charts, tables."""

    name: str
    title: str
    text: str
    claims: tuple[Claim, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Document:
    """A finished study.

    inputs      how its numbers were drawn, so that they can be drawn again
    seconds     by the clock; processor_seconds: on all cores together
    whole       False for the small version that tests run
    """

    study: str
    title: str
    lead: str
    inputs: str
    parts: tuple[Part, ...]
    seconds: float
    processor_seconds: float
    whole: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def claims(self) -> tuple[Claim, ...]:
        return tuple(claim for part in self.parts for claim in part.claims)

    def to_json(self) -> str:
        data = {"version": VERSION, **asdict(self)}
        return json.dumps(_finite(data), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def read(path: Path) -> Document:
    """Read a study. Raises UsageError for a file that is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data.pop("version") != VERSION:
            raise UsageError(f"{path} was written by another version; run the study again")
        parts = tuple(_part(p) for p in data.pop("parts"))
        return Document(**data, parts=parts)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is not a study ({error}); run `attncert study` again") from None


def _part(data: dict[str, Any]) -> Part:
    claims = tuple(
        Claim(c["says"], c["source"], Judgement(**c["judgement"])) for c in data["claims"]
    )
    return Part(
        data["name"],
        data["title"],
        data["text"],
        claims,
        tuple(_chart(c) for c in data["charts"]),
        tuple(_table(t) for t in data["tables"]),
    )


def _table(data: dict[str, Any]) -> Table:
    rows = tuple(tuple(row) for row in data["rows"])
    return Table(data["title"], tuple(data["columns"]), rows, data["note"])


def _chart(data: dict[str, Any]) -> Chart:
    lines = tuple(Line(i["title"], tuple(i["x"]), tuple(i["y"])) for i in data["lines"])
    levels = tuple((float(value), str(words)) for value, words in data["levels"])
    return Chart(**{**data, "lines": lines, "levels": levels})


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinities: in tables they become words, in lines gaps."""
    if isinstance(value, dict):
        return {k: _gaps(v) if k in ("x", "y") else _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "infinity" if value > 0 else "-infinity"
    return value


def _gaps(values: Any) -> list[Number]:
    return [None if v is None or not math.isfinite(v) else v for v in values]
