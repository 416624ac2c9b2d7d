"""Change: one thing that differs between two versions, and whether it is worse."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum


class Kind(IntEnum):
    """What a change does to the exit status."""

    NOTE = 0
    ACCURACY = 1
    INTEGRITY = 3
    SPEED = 6


@dataclass(frozen=True)
class Change:
    """One line of a comparison.

    kind      NOTE for what is told only; any other sets the exit status
    subject   kernel, format and device
    where     the family or shape
    text      what it was, and what it is
    """

    kind: Kind
    subject: str
    where: str
    text: str


@dataclass
class Outcome:
    """All changes, and how much was compared."""

    changes: list[Change] = field(default_factory=list)
    pairs: int = 0
    cases: int = 0
    timings: int = 0

    @property
    def worse(self) -> list[Change]:
        return [c for c in self.changes if c.kind is not Kind.NOTE]

    @property
    def notes(self) -> list[Change]:
        return [c for c in self.changes if c.kind is Kind.NOTE]

    @property
    def exit_status(self) -> int:
        """3 before 1 before 6; 4 where nothing was compared; else 0."""
        kinds = {c.kind for c in self.worse}
        for kind in (Kind.INTEGRITY, Kind.ACCURACY, Kind.SPEED):
            if kind in kinds:
                return int(kind)
        return 0 if self.cases or self.timings else 4
