"""The kill matrix as text and as plain data."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from verify import backing
from verify.certificate import plain
from verify.selftest.expected import Expected
from verify.selftest.gate import failures, kills_by_check, worth_keeping
from verify.selftest.hunt import Kill, Outcome
from verify.selftest.running import Result

SHOWN = 6


def line(outcome: Outcome, expected: Expected) -> str:
    """One kernel in one format: its kills with their margins, and what is wrong."""
    wrong = failures(outcome, expected)
    mark = "WRONG" if wrong else "ok"
    head = f"{mark:5} {outcome.kernel} {outcome.format}"
    ranked = sorted(outcome.kills.items(), key=lambda entry: -entry[1].margin)
    kills = ", ".join(f"{name} {_margin(kill)}" for name, kill in ranked[:SHOWN])
    more = f", {len(ranked) - SHOWN} more" if len(ranked) > SHOWN else ""
    why = expected.exception(outcome.kernel, outcome.format)
    notes = [f"    {w.partition(': ')[2]}" for w in wrong]
    notes += [f"    {why.why}"] if why else []
    told = f"{kills}{more}" if kills else _nothing(outcome)
    return "\n".join([f"{head:58} {told}", *notes])


def _margin(kill: Kill) -> str:
    return f"{kill.check}" if math.isinf(kill.margin) else f"x{kill.margin:.3g}"


def _nothing(outcome: Outcome) -> str:
    if outcome.kernel.startswith("cheat-") and outcome.problems:
        return outcome.problems[0]
    return f"{outcome.records} cases, none refuted"


def totals(result: Result) -> list[str]:
    """N of N, M of M, and each family's kills."""
    lines = []
    words = {"control": "refuted", "right": "not refuted", "cheat": "caught"}
    for kind, word in words.items():
        good, number = _count(result, kind)
        if number:
            lines.append(f"{kind}s {word}: {good} of {number} (kernel and format)")
    counts = kills_by_check(result.outcomes)
    if counts:
        by_number = sorted(counts.items(), key=lambda e: (-e[1], e[0]))
        lines.append("controls refuted by " + ", ".join(f"{n} {c}" for n, c in by_number))
    lines += [f"FAILED {f}" for f in result.failures]
    lines.append(f"{result.seconds:.0f} s, {'all families' if result.full else 'default run'}")
    return lines


def _count(result: Result, kind: str) -> tuple[int, int]:
    names = {(o.kernel, o.format) for o in result.of(kind)}
    bad = {f.partition(": ")[0] for f in result.failures}
    return sum(f"{k} {f}" not in bad for k, f in names), len(names)


def summary(result: Result) -> dict[str, Any]:
    """What a certificate carries of the selftest that backs its judge."""
    counted = {kind: _count(result, kind) for kind in ("control", "right", "cheat")}
    return {
        "digest": backing.digest(),
        "verdict": "passed" if not result.failures else "failed",
        "run": "all families" if result.full else "the families of the table, and two more each",
        "controls refuted": "{} of {}".format(*counted["control"]),
        "right kernels not refuted": "{} of {}".format(*counted["right"]),
        "cheats caught": "{} of {}".format(*counted["cheat"]),
        "controls refuted by": [f"{n} {c}" for n, c in kills_by_check(result.outcomes).items()],
        "matrix": _compact(result),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(result.seconds, 1),
    }


def _compact(result: Result) -> dict[str, dict[str, str]]:
    """Control -> format -> its largest kills, as text."""
    found: dict[str, dict[str, str]] = {}
    for outcome in result.of("control"):
        ranked = sorted(outcome.kills.items(), key=lambda entry: -entry[1].margin)
        told = ", ".join(f"{name} {_margin(kill)}" for name, kill in ranked[:3])
        found.setdefault(outcome.kernel.removeprefix("control-"), {})[outcome.format] = told
    return found


def data(result: Result, expected: Expected) -> dict[str, Any]:
    """The whole matrix as plain data."""
    return {
        "summary": summary(result),
        "failures": list(result.failures),
        "matrix": [_row(o, expected) for o in result.outcomes],
    }


def _row(outcome: Outcome, expected: Expected) -> dict[str, Any]:
    why = expected.exception(outcome.kernel, outcome.format)
    row: dict[str, Any] = plain(
        {
            "kernel": outcome.kernel,
            "format": outcome.format,
            "operation": outcome.operation,
            "kills": {
                name: {"check": k.check, "margin": k.margin, "case": k.case}
                for name, k in outcome.kills.items()
            },
            "tried": len(outcome.tried),
            "cases": outcome.records,
            "problems": list(outcome.problems),
            "why": why.why if why else "",
        }
    )
    return row


def kept(outcomes: Iterable[Outcome]) -> dict[str, dict[str, dict[str, str]]]:
    """The expected kills that these outcomes suggest."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for outcome in outcomes:
        if outcome.kernel.startswith("control-"):
            found.setdefault(outcome.kernel, {})[outcome.format] = worth_keeping(outcome)
    return found


def peers_lines(found: dict[str, Any]) -> list[str]:
    """One line for each control and format: the gates that would have let it pass."""
    lines = [f"{name}: {gate['rule']}" for name, gate in found["gates"].items()]
    for kernel, formats in found["kernels"].items():
        for fmt, answers in formats.items():
            passed = [gate for gate, word in answers.items() if word == "accepted"]
            asked = sum(1 for word in answers.values() if word)
            told = f"accepted by {len(passed)} of {asked}: {', '.join(passed)}"
            lines.append(
                f"{kernel + ' ' + fmt:52} {told if passed else f'rejected by all {asked}'}"
            )
    return lines


def power_lines(found: dict[str, dict[str, dict[str, Any]]]) -> list[str]:
    """One line for each format, family and n."""
    lines = []
    for fmt, by_family in found.items():
        for family, by_n in by_family.items():
            for n, cell in by_n.items():
                sizes = [
                    f"{name} {size:.2g}" if isinstance(size, float) else f"{name} {size}"
                    for name, size in cell.items()
                ]
                same = set(cell.values())
                told = str(next(iter(same))) if len(same) == 1 else ", ".join(sizes)
                lines.append(f"{fmt} {family + ' n_k=' + n:36} {told}")
    return lines
