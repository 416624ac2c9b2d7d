"""Trend: what the certificates of several versions say of one kernel, version by version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from verify.certificate import Certificate
from verify.compare.side import Side, side
from verify.errors import UsageError
from verify.report import facts
from verify.report.pareto import bits, compared, errors, shared


@dataclass(frozen=True)
class Version:
    """One version: its name, and what was found in it."""

    name: str
    side: Side


@dataclass(frozen=True)
class State:
    """One kernel in one version.

    typical, largest   error / bound: median over the cases, and the largest (None: a value is lost)
    accuracy           correct bits of a typical judged case (see `verify.report.pareto`), over the
                       cases that every version was judged on
    rate, ratio        tokens per second, and the reference's time over the kernel's, at the shape
                       that most versions were timed at; None where it was not timed
    """

    verdict: str
    grade: str
    typical: float | None
    largest: float | None
    accuracy: float | None
    rate: float | None
    ratio: float | None
    trust: str
    profile: str


@dataclass(frozen=True)
class Trend:
    """One kernel, format and device over all versions; None where a version lacks it."""

    title: str
    shape: str | None
    states: tuple[State | None, ...]


def versions(folders: Sequence[Path], names: Sequence[str] = ()) -> list[Version]:
    """Read the versions, oldest first; a version is called like its folder unless it is named.

    Raises      UsageError where fewer than two are given, or names that do not tell them apart.
    """
    if len(folders) < 2:
        raise UsageError("a history needs two folders at least, oldest first")
    if names and len(names) != len(folders):
        raise UsageError(f"{len(folders)} folders have {len(names)} --label")
    called = list(names) or [folder.resolve().name for folder in folders]
    if len(set(called)) != len(called):
        raise UsageError(f"two versions have one name ({', '.join(called)}): give each a --label")
    found = [Version(n, side(folder)) for n, folder in zip(called, folders, strict=True)]
    empty = [v.name for v in found if not v.side.certificates]
    if empty:
        raise UsageError(f"no certificate in {', '.join(empty)}")
    return found


def trends(found: Sequence[Version]) -> list[Trend]:
    """A trend for each kernel, operation, format and device of any version."""
    by_version = [{_key(c): c for c in v.side.certificates} for v in found]
    keys = sorted({key for known in by_version for key in known})
    return [_trend(key, [known.get(key) for known in by_version]) for key in keys]


def _key(c: Certificate) -> tuple[str, str, str, str]:
    """A kernel in a file is called by the file's name, wherever a version's checkout lies."""
    return str(c.kernel["operation"]), Path(facts.name(c)).name, c.format, c.device


def _trend(key: tuple[str, str, str, str], certificates: Sequence[Certificate | None]) -> Trend:
    shape = compared([c for c in certificates if c is not None])
    cases = shared([c for c in certificates if c is not None])
    states = tuple(None if c is None else _state(c, shape, cases) for c in certificates)
    _, name, fmt, device = key
    return Trend(f"{name} {fmt}" + ("" if device == "cpu" else f" {device}"), shape, states)


def _state(c: Certificate, shape: str | None, cases: set[str] | None) -> State:
    from verify.timings import label

    timing = next((t for t in c.throughput if label(t) == shape), {})
    sizes = errors(c, cases)
    rate, ratio = timing.get("tokens_per_second"), timing.get("ratio")
    return State(
        verdict=facts.status(c).word,
        grade=c.grade.letter if c.grade else "—",
        typical=facts.typical_tightness(c),
        largest=None if facts.lost_values(c) else facts.largest_tightness(c),
        accuracy=None if not sizes or facts.lost_values(c) else bits(median(sizes)),
        rate=None if rate is None else float(rate),
        ratio=None if ratio is None else float(ratio),
        trust=str(timing.get("trust", "")),
        profile=c.profile,
    )
