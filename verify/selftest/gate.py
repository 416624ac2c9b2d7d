"""Gate: what a selftest demands of each outcome, and the sentence that says what is missing."""

from __future__ import annotations

import math
from collections.abc import Iterable

from verify.selftest.expected import ENOUGH, LEAST_MARGIN, Expected, Shortfall
from verify.selftest.hunt import Kill, Outcome

SHOWN = 4  # kills of a control that the table keeps, besides one for each kind of check


def failures(outcome: Outcome, expected: Expected) -> list[str]:
    """What is wrong with one outcome; empty where all is as it must be."""
    kind = outcome.kernel.partition("-")[0]
    found = {"control": _control, "right": _right, "cheat": _cheat}[kind](outcome, expected)
    return [f"{outcome.kernel} {outcome.format}: {what}" for what in found]


def _control(outcome: Outcome, expected: Expected) -> list[str]:
    demanded = expected.exception(outcome.kernel, outcome.format)
    demanded = demanded or Shortfall(ENOUGH, "", LEAST_MARGIN)
    wrong = []
    if len(outcome.kills) < demanded.at_least:
        wrong.append(f"refuted by {len(outcome.kills)} of {demanded.at_least} checks")
    if demanded.at_least and not outcome.margin >= demanded.margin:
        wrong.append(f"largest margin {outcome.margin:.3g}, below {demanded.margin:g}")
    predictable = outcome.kernel not in expected.unpredictable
    for name, check in expected.kills(outcome.kernel, outcome.format).items():
        kill = outcome.kills.get(name)
        if name in outcome.tried and kill is None:
            wrong.append(f"no longer refuted by {name}")
        elif kill is not None and kill.check != check and predictable:
            wrong.append(f"refuted by {name} through {kill.check} instead of {check}")
        elif kill is None:
            wrong.append(f"{name} was not tried")
    return wrong


def _right(outcome: Outcome, _: Expected) -> list[str]:
    refuted = [f"refuted: {k.reason} ({k.case})" for k in outcome.kills.values()]
    return refuted + list(outcome.problems)


def _cheat(outcome: Outcome, expected: Expected) -> list[str]:
    entry = expected.cheats.get(outcome.kernel)
    if entry is None:
        return ["the table does not say which check catches it"]
    heard = [k.reason for k in outcome.kills.values()] + list(outcome.problems)
    # unwritten memory may hold the poison or old numbers: then either sentence is right
    ways = entry["says"].split(" or else ")
    if not any(way in sentence for sentence in heard for way in ways):
        return [f"not caught by {entry['where']} as {entry['says']!r}; it said {heard[:1]}"]
    return []


def worth_keeping(outcome: Outcome) -> dict[str, str]:
    """The kills that the table keeps: the largest, and the largest of each kind of check."""
    ranked = sorted(outcome.kills.items(), key=_rank)
    kept: dict[str, str] = {}
    for check in sorted({kill.check for _, kill in ranked if ":" not in kill.check}):
        name = next(n for n, kill in ranked if kill.check == check)
        kept[name] = check
    for name, kill in ranked:
        if len(kept) < SHOWN:
            kept.setdefault(name, kill.check)
    return kept


def _rank(entry: tuple[str, Kill]) -> tuple[float, str]:
    return (-entry[1].margin if entry[1].margin < math.inf else -math.inf, entry[0])


def kills_by_check(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """How many controls each family or property refuted, in any format."""
    killed: dict[str, set[str]] = {}
    for outcome in outcomes:
        if outcome.kernel.startswith("control-"):
            for name in outcome.kills:
                killed.setdefault(name, set()).add(outcome.kernel)
    return {name: len(found) for name, found in sorted(killed.items())}
