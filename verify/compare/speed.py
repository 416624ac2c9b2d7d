"""Speed: limits in the style of pytest-benchmark's `--benchmark-compare-fail`, on timings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verify.compare.change import Change, Kind
from verify.compare.side import Side
from verify.errors import UsageError
from verify.timings import Timed, label

FIELDS = {"min": "seconds_least", "median": "seconds_median", "ratio": "ratio"}
MACHINE = ("threads", "cpu", "gpu")
_FORM = re.compile(r"^(min|median|ratio):(\d+(?:\.\d*)?(?:e-?\d+)?)(%?)$")


@dataclass(frozen=True)
class Limit:
    """How much slower a kernel may become.

    name     'min' or 'median' of the seconds of a call, or 'ratio' to the reference
    allowed  as a part of the old figure (relative), or in seconds
    """

    name: str
    allowed: float
    relative: bool
    text: str

    @classmethod
    def parse(cls, text: str) -> Limit:
        """`median:10%`, `min:0.001` (seconds) or `ratio:5%`. Raises UsageError for others."""
        match = _FORM.match(text.strip())
        if match is None or (match[1] == "ratio" and not match[3]):
            raise UsageError(
                f"unknown limit {text!r}; write median:10%, min:0.001 (seconds) or ratio:5%"
            )
        value = float(match[2]) / (100 if match[3] else 1)
        return cls(match[1], value, bool(match[3]), text.strip())

    def passed(self, old: float, new: float) -> bool:
        """Whether the limit is passed. A smaller ratio is slower; more seconds are."""
        if self.name == "ratio":
            return old / new - 1 > self.allowed
        growth = (new - old) / old if self.relative else new - old
        return growth > self.allowed


def changes(old: Side, new: Side, limits: Sequence[Limit]) -> tuple[list[Change], int]:
    """The changes of speed, and how many timings have a partner.

    Raises      UsageError where a limit is given and nothing can be held against it.
    """
    pairs = list(_pairs(old.timed(), new.timed()))
    found = [_impossible(t) for _, t in pairs if t.timing.get("problems")]
    held = 0
    for before, now in pairs:
        for limit in limits:
            change = _judged(before, now, limit)
            held += change is not None
            found += [change] if change and change.kind is not Kind.NOTE else []
        found += _told(before, now)
    if limits and not held:
        raise UsageError(
            f"a limit of speed was given, but {old.name} and {new.name} have no timing in common "
            "that it applies to; run attncert bench on both"
        )
    return found, len(pairs)


def _pairs(old: Sequence[Timed], new: Sequence[Timed]) -> Iterator[tuple[Timed, Timed]]:
    """Timings of the same kernel (by its file's name, wherever that lies), format and shape."""
    theirs = {_key(t): t for t in old}
    for now in new:
        before = theirs.get(_key(now))
        if before is not None:
            yield before, now


def _key(timed: Timed) -> tuple[str, ...]:
    return Path(timed.kernel).name, timed.format, timed.device, label(timed.timing)


def _judged(before: Timed, now: Timed, limit: Limit) -> Change | None:
    """The change that a limit finds; None where one side lacks the figure."""
    field = FIELDS[limit.name]
    old, new = before.timing.get(field), now.timing.get(field)
    if not old or not new:
        return None
    if limit.name == "ratio" and before.timing.get("against") != now.timing.get("against"):
        raise UsageError(
            f"{_subject(now)}: ratios to {before.timing.get('against')} and to "
            f"{now.timing.get('against')} do not compare"
        )
    if limit.name != "ratio":
        _require_same_machine(before, now)
    text = f"{limit.name} {_figure(limit, old)} -> {_figure(limit, new)}: past {limit.text}"
    kind = Kind.SPEED if limit.passed(float(old), float(new)) else Kind.NOTE
    return Change(kind, _subject(now), label(now.timing), text + _trust(before, now))


def _figure(limit: Limit, value: float) -> str:
    return f"{value:.3g}" if limit.name == "ratio" else f"{value * 1e3:.4g} ms"


def _trust(before: Timed, now: Timed) -> str:
    levels = {str(t.timing.get("trust", "not known")) for t in (before, now)}
    return "" if levels == {"good"} else f" (trust in these times: {', '.join(sorted(levels))})"


def _require_same_machine(before: Timed, now: Timed) -> None:
    old: Mapping[str, Any] = before.timing.get("machine") or {}
    new: Mapping[str, Any] = now.timing.get("machine") or {}
    for name in MACHINE:
        if name in old and name in new and old[name] != new[name]:
            raise UsageError(
                f"{_subject(now)}: timed with {name} {old[name]} and with {name} {new[name]}; "
                "seconds of two machines do not compare: use a limit of ratio"
            )


def _told(before: Timed, now: Timed) -> list[Change]:
    """A note of how the median changed, where it did by more than a twentieth."""
    old, new = float(before.timing["seconds_median"]), float(now.timing["seconds_median"])
    if not old or 0.95 <= new / old <= 1.05:
        return []
    word = "slower" if new > old else "faster"
    factor = max(new / old, old / new)
    text = f"{old * 1e3:.4g} -> {new * 1e3:.4g} ms a call, {factor:.3g} times {word}"
    return [Change(Kind.NOTE, _subject(now), label(now.timing), text + _trust(before, now))]


def _impossible(timed: Timed) -> Change:
    text = "; ".join(map(str, timed.timing["problems"]))
    return Change(Kind.INTEGRITY, _subject(timed), label(timed.timing), text)


def _subject(timed: Timed) -> str:
    return f"{timed.kernel} {timed.format} {timed.device}"
