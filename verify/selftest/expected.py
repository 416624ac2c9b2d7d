"""The committed table of kills: which check must refute which control, in which format.

    variants     controls with options, run beside the registered names
    expected     control -> format -> family or property -> check that decides there
    exceptions   control -> format (or "all") -> how many different families or properties can
                 refute it (0: none in this format), and why there are no more
    cheats       cheat -> {"where": family or property, "says": what the record must say,
                 "after": "restart" where it leaves its process patched}

    unpredictable  controls that are refuted through another check each time (by what memory held)

`attncert selftest --full --write-expected` writes `expected` anew; the rest is written by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from verify.certificate import write_atomically

FILE = "kills.json"
ENOUGH = 2  # different families or properties that must refute a control
LEAST_MARGIN = 2.0


@dataclass(frozen=True)
class Shortfall:
    """Why a control is refuted by fewer families or properties in a format, or by less."""

    at_least: int
    why: str
    margin: float = LEAST_MARGIN


@dataclass(frozen=True)
class Expected:
    """The table as data."""

    variants: tuple[str, ...] = ()
    expected: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)
    exceptions: Mapping[str, Mapping[str, Mapping[str, object]]] = field(default_factory=dict)
    cheats: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    unpredictable: tuple[str, ...] = ()

    def kills(self, control: str, fmt: str) -> dict[str, str]:
        """Family or property -> check, for one control in one format."""
        return dict(self.expected.get(control, {}).get(fmt, {}))

    def exception(self, control: str, fmt: str) -> Shortfall | None:
        """The exception of a control in a format, where there is one."""
        found = self.exceptions.get(control, {})
        entry: Any = found.get(fmt) or found.get("all")
        return None if entry is None else Shortfall(**entry)

    def with_kills(self, kills: Mapping[str, Mapping[str, Mapping[str, str]]]) -> Expected:
        """This table with the expected kills of these controls and formats replaced."""
        merged = {c: dict(formats) for c, formats in self.expected.items()}
        for control, formats in kills.items():
            merged.setdefault(control, {}).update(formats)
        return replace(self, expected=merged)


def table() -> Expected:
    """The committed table."""
    text = resources.files("verify.controls").joinpath(FILE).read_text(encoding="utf-8")
    data = json.loads(text)
    return Expected(
        tuple(data["variants"]),
        data["expected"],
        data["exceptions"],
        data["cheats"],
        tuple(data["unpredictable"]),
    )


def write(expected: Expected) -> Path:
    """Write the table into the source tree; it is reviewed and committed like any other file."""
    path = Path(str(resources.files("verify.controls").joinpath(FILE)))
    text = json.dumps(asdict(expected), indent=1, sort_keys=True, ensure_ascii=False)
    write_atomically(path, text + "\n")
    return path
