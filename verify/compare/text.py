"""Text: an outcome for a terminal, and as a Markdown comment for a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from verify.compare.change import Change, Kind, Outcome
from verify.report.markdown import escape, row

WORDS = {
    Kind.NOTE: "note",
    Kind.ACCURACY: "WORSE",
    Kind.INTEGRITY: "INTEGRITY",
    Kind.SPEED: "SLOWER",
}
MOST = 40  # lines of a Markdown table; the rest is counted


def headline(outcome: Outcome) -> str:
    """One line: what was compared, and whether anything is worse."""
    told = f"{outcome.pairs} certificates, {outcome.cases} cases and {outcome.timings} timings"
    if outcome.exit_status == 4:
        return f"nothing in common: {told}"
    if not outcome.worse:
        return f"nothing is worse: {told} compared"
    return f"{len(outcome.worse)} changes for the worse: {told} compared"


def terminal(outcome: Outcome) -> str:
    """Every change, the worse ones first."""
    lines = [_line(change) for change in (*outcome.worse, *outcome.notes)]
    return "\n".join([*lines, headline(outcome)])


def _line(change: Change) -> str:
    return f"{WORDS[change.kind]:<9} {change.subject}  {change.where}: {change.text}"


def markdown(outcome: Outcome) -> str:
    """A comment: the verdict, a table of what is worse, and the rest folded away."""
    mark = "✅" if outcome.exit_status == 0 else "❌"
    parts = [f"### {mark} attncert compare: {escape(headline(outcome))}"]
    if outcome.worse:
        parts.append(_table(outcome.worse))
    if outcome.notes:
        parts.append(
            f"<details><summary>{len(outcome.notes)} other changes</summary>\n\n"
            f"{_table(outcome.notes)}\n\n</details>"
        )
    return "\n\n".join(parts) + "\n"


def _table(changes: Sequence[Change]) -> str:
    lines = [row(["", "Kernel", "Where", "Change"]), row(["---"] * 4)]
    for change in changes[:MOST]:
        cells = (WORDS[change.kind], change.subject, change.where, change.text)
        lines.append(row([escape(cell) for cell in cells]))
    if len(changes) > MOST:
        lines.append(row(["", "", "", f"and {len(changes) - MOST} more"]))
    return "\n".join(lines)
