"""Accuracy: what became worse between two certificates, by how much, and in which family."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from verify.certificate import Certificate, Record
from verify.compare.change import Change, Kind
from verify.compare.side import Pair
from verify.judge import Verdict
from verify.report.sections.grades import KNOWN

ORDER = tuple(Verdict)


@dataclass(frozen=True)
class Growth:
    """How much the error of a family grew.

    old, new   largest error of the family: in attention over u Σ P|v|, else in ulp
    case       where the new one is
    """

    family: str
    old: float
    new: float
    case: str
    floor: float

    @property
    def factor(self) -> float:
        """new / old, where an error below that of correct rounding counts as that."""
        if math.isinf(self.new):
            return 1.0 if math.isinf(self.old) else math.inf
        return max(self.new, self.floor) / max(self.old, self.floor)


def changes(pair: Pair, max_growth: float) -> Iterator[Change]:
    """The changes of one pair: declaration, verdicts, grade, cases, then errors by family."""
    yield from _declared(pair)
    yield from _verdicts(pair)
    yield from _grade(pair)
    yield from _coverage(pair)
    for growth in growths(pair):
        yield from _grown(pair, growth, max_growth)


def common(pair: Pair) -> list[tuple[Record, Record]]:
    """Records of the same case on the same bits, old and new."""
    new = {(r.case, r.check.partition(":")[2]): r for r in pair.new.records}
    pairs = [(r, new.get((r.case, r.check.partition(":")[2]))) for r in pair.old.records]
    return [(a, b) for a, b in pairs if b is not None and a.digest == b.digest]


def growths(pair: Pair) -> list[Growth]:
    """For each family that both have judged: its largest errors, over the common cases."""
    name, floor = measure(pair.new)
    by_family: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for old, new in common(pair):
        before, now = _error(old, name), _error(new, name)
        if before is not None and now is not None:
            by_family[old.family].append((before, now, new.case))
    found = []
    for family, errors in by_family.items():
        worst = max(errors, key=lambda e: e[1])
        largest = max(e[0] for e in errors)
        found.append(Growth(family, largest, worst[1], worst[2], floor))
    return sorted(found, key=lambda g: -g.factor)


def measure(certificate: Certificate) -> tuple[str, float]:
    """The measure of error that compares over a family, and what correct rounding costs in it."""
    if certificate.kernel["operation"] == "attention":
        return "max_scaled", 1.0
    return "max_ulp", 0.5


def _error(record: Record, name: str) -> float | None:
    """The largest error of a record; infinite where a value was lost."""
    if record.check in ("finite", "class") and record.verdict is Verdict.FAIL:
        return math.inf
    inner: Any = record.metrics.get("output")
    measures: Mapping[str, Any] = inner if isinstance(inner, Mapping) else record.metrics
    value = measures.get(name)
    return None if value is None or math.isnan(float(value)) else float(value)


def _grown(pair: Pair, growth: Growth, max_growth: float) -> Iterator[Change]:
    if not growth.factor > 1.005:
        return
    kind = Kind.ACCURACY if growth.factor > max_growth else Kind.NOTE
    unit = "u Σ P|v|" if measure(pair.new)[0] == "max_scaled" else "ulp"
    text = (
        f"largest error {growth.old:.4g} -> {growth.new:.4g} {unit}, "
        f"{growth.factor:.3g} times ({growth.case})"
    )
    yield Change(kind, pair.name, growth.family, text)


def _declared(pair: Pair) -> Iterator[Change]:
    old, new = pair.old, pair.new
    if old.model != new.model or old.kernel["declaration"] != new.kernel["declaration"]:
        text = (
            f"other declarations (model {old.model['name']} -> {new.model['name']}): "
            "bounds and verdicts do not compare, errors and grades do"
        )
        yield Change(Kind.NOTE, pair.name, "declaration", text)


def _verdicts(pair: Pair) -> Iterator[Change]:
    worse: dict[tuple[str, Verdict, Verdict], list[str]] = defaultdict(list)
    for old, new in common(pair):
        if ORDER.index(new.verdict) < ORDER.index(old.verdict):
            worse[new.family, old.verdict, new.verdict].append(new.case)
    for (family, before, now), cases in worse.items():
        kind = Kind.INTEGRITY if now is Verdict.INTEGRITY else Kind.ACCURACY
        more = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
        yield Change(kind, pair.name, family, f"{before} -> {now} ({cases[0]}{more})")
    if not worse and ORDER.index(pair.new.verdict) < ORDER.index(pair.old.verdict):
        text = f"{pair.old.verdict} -> {pair.new.verdict}"
        yield Change(Kind.ACCURACY, pair.name, "verdict", text)


def _grade(pair: Pair) -> Iterator[Change]:
    old, new = pair.old.grade, pair.new.grade
    if old is None or new is None or old.letter == new.letter:
        return
    worse = _place(new.letter) > _place(old.letter)
    by = f", limited by {new.limited_by}" if new.limited_by else ""
    kind = Kind.ACCURACY if worse else Kind.NOTE
    yield Change(kind, pair.name, "grade", f"{old.letter} -> {new.letter}{by}")


def _place(letter: str) -> int:
    return KNOWN.index(letter) if letter in KNOWN else len(KNOWN)


def _coverage(pair: Pair) -> Iterator[Change]:
    """Cases that were judged and are not any more; cases on other bits; what only now is judged."""
    old = {r.case: r for r in pair.old.records}
    new = {r.case: r for r in pair.new.records}
    gone = [case for case in old if case not in new]
    if gone:
        reasons = {s.case: s.reason for s in pair.new.skipped}
        why = reasons.get(gone[0], "it is not in the new certificate")
        text = f"{len(gone)} cases are judged no more, such as {gone[0]}: {why}"
        yield Change(Kind.ACCURACY, pair.name, "coverage", text)
    other = [case for case, r in old.items() if case in new and new[case].digest != r.digest]
    if other:
        text = f"{len(other)} cases have other inputs, such as {other[0]}: not compared"
        yield Change(Kind.NOTE, pair.name, "coverage", text)
    added = [case for case in new if case not in old]
    if added:
        yield Change(Kind.NOTE, pair.name, "coverage", f"{len(added)} cases are judged now only")
