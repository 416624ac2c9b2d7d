"""Waivers: refuted cases that somebody has taken responsibility for, for a time.

A waiver changes no verdict.  The certificate stays FAIL and lists the case; only the exit status no
longer counts it.  A waiver has a reason, an owner and a day on which it ends.  One that has ended
waives nothing, and one that is no longer needed fails the run until it is taken out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from fnmatch import fnmatchcase
from typing import Any, Literal

from verify.certificate import WAIVABLE, Certificate, Record

State = Literal["used", "not needed", "expired", "no such case"]


@dataclass(frozen=True)
class Waiver:
    """One entry of the file of declared semantics.

    case      a pattern (`*`, `?`) of case ids such as `exp_ladder/fp16/*`, or None
    family    the name of a family or property, or None; exactly one of the two is given
    expires   the last day on which it holds
    """

    reason: str
    owner: str
    expires: date
    case: str | None = None
    family: str | None = None

    @property
    def pattern(self) -> str:
        """What it is about, as a person would say it."""
        return f"case {self.case}" if self.case is not None else f"family {self.family}"

    def covers(self, record: Record) -> bool:
        """Whether a record is one of those that it is about."""
        if self.case is not None:
            return fnmatchcase(record.case, self.case)
        return record.family == self.family


def applied(
    waivers: Sequence[Waiver], records: Iterable[Record], today: date | None = None
) -> tuple[dict[str, Any], ...]:
    """What each waiver does to these records, as a certificate tells it.

    A failed integrity check cannot be waived.
    """
    today = today or date.today()
    kept = list(records)
    return tuple(_entry(waiver, kept, today) for waiver in waivers)


def _entry(waiver: Waiver, records: list[Record], today: date) -> dict[str, Any]:
    covered = [record for record in records if waiver.covers(record)]
    failing = [record.case for record in covered if record.verdict in WAIVABLE]
    state: State
    if waiver.expires < today:
        state = "expired"
    elif failing:
        state = "used"
    else:
        state = "not needed" if covered else "no such case"
    return {
        **asdict(waiver),
        "expires": waiver.expires.isoformat(),
        "state": state,
        "cases": failing if state == "used" else [],
    }


def problems(
    waivers: Sequence[Waiver], certificates: Sequence[Certificate], *, complete: bool
) -> list[str]:
    """What is wrong with the waivers of one kernel after a run; each fails it.

    complete    every case of the kernel was run, so that a pattern without a case is a mistake
    """
    found = []
    for number, waiver in enumerate(waivers):
        states = {c.waivers[number]["state"] for c in certificates}
        told = f"the waiver of {waiver.owner} for {waiver.pattern}"
        if "expired" in states:
            found.append(
                f"{told} ended on {waiver.expires}: repair the kernel, or renew it with a reason"
            )
        elif "used" in states:
            continue
        elif "not needed" in states:
            found.append(f"{told} is no longer needed: nothing fails there; take it out")
        elif complete and states:
            found.append(f"{told} fits no case; correct the pattern, or take it out")
    return found
