"""Comparing: two places become one outcome."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from verify.compare import accuracy, speed
from verify.compare.change import Change, Kind, Outcome
from verify.compare.side import pairing, side
from verify.compare.speed import Limit


def compare(old: Path, new: Path, max_growth: float, limits: Sequence[Limit] = ()) -> Outcome:
    """What became worse from `old` to `new`, files or folders.

    max_growth   how many times the largest error of a family may grow
    limits       of speed
    Raises       UsageError where the two do not compare, CertificateError for unreadable files.
    """
    before, now = side(old), side(new)
    found = pairing(before, now)
    outcome = Outcome(pairs=len(found.pairs))
    for name in found.lost:
        text = f"certified in {before.name}, but not in {now.name}"
        outcome.changes.append(Change(Kind.ACCURACY, name, "certificate", text))
    for name in found.added:
        text = f"certified in {now.name} only"
        outcome.changes.append(Change(Kind.NOTE, name, "certificate", text))
    for pair in found.pairs:
        outcome.changes += accuracy.changes(pair, max_growth)
        outcome.cases += len(accuracy.common(pair))
    changes, outcome.timings = speed.changes(before, now, limits)
    outcome.changes += changes
    return outcome
