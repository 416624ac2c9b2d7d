"""The words and numbers that a reader sees: one spelling for each verdict, stage and number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from verify.judge import Verdict

DECISION_RULE = (
    "For every element, |output − truth| is enclosed in an interval. PASS: its upper end is at "
    "most the bound that is proved from the arithmetic that the kernel declares. FAIL: its lower "
    "end is above that bound, or the output is NaN or infinite where the truth is finite: the "
    "kernel is refuted. One refuted element refutes the kernel; there is no quota of mismatches."
)
RULE_OF_WORST = (
    "A kernel's verdict is the worst of its cases, in the order INTEGRITY, FAIL, ERROR, "
    "INCONCLUSIVE, OUT OF SCOPE, PASS. A planned case that is missing makes it INCONCLUSIVE."
)


@dataclass(frozen=True)
class Status:
    """A verdict as it is shown: word, symbol (colour is never alone), CSS class, meaning."""

    word: str
    symbol: str
    css: str
    meaning: str


UNAVAILABLE = Status("not available", "–", "none", "the kernel cannot run on this machine")
STATUS = {
    Verdict.PASS: Status(
        "PASS", "✓", "pass", "every judged element is within the proved bound (consistent)"
    ),
    Verdict.FAIL: Status(
        "FAIL", "✗", "fail", "refuted: an output contradicts the declared arithmetic"
    ),
    Verdict.ERROR: Status("ERROR", "!", "error", "the kernel crashed, hung or broke its contract"),
    Verdict.INTEGRITY: Status(
        "INTEGRITY", "⚠", "fail", "the kernel changed its inputs or tampered with the run"
    ),
    Verdict.INCONCLUSIVE: Status(
        "INCONCLUSIVE", "?", "unknown", "not decided: nothing may be concluded from it"
    ),
    Verdict.OUT_OF_SCOPE: Status(
        "OUT OF SCOPE", "○", "outside", "the hypotheses of the bound do not hold here"
    ),
}
NOT_CERTIFIABLE = Status(
    "NOT CERTIFIABLE", "∅", "outside", "the bound exceeds the signal, so that zeros would pass"
)

FORMAT_NAMES = {
    "fp16": "binary16",
    "bf16": "bfloat16",
    "fp32": "binary32",
    "fp64": "binary64",
    "e4m3": "FP8 E4M3",
    "e5m2": "FP8 E5M2",
}


def number(value: Any, digits: int = 3) -> str:
    """A number as text; what is not finite as a word, what is not there as a dash."""
    if value is None:
        return "—"
    value = float(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "infinity" if value > 0 else "-infinity"
    if value == 0:
        return "0"
    return f"{value:.{digits}g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")


def ratio(value: float | None, digits: int = 3) -> str:
    """An error over a bound; never rounded to 1, which is where the verdict turns."""
    if value is None or not math.isfinite(value):
        return number(value)
    while float(f"{value:.{digits}g}") == 1 and value != 1 and digits < 6:
        digits += 1
    if value != 1 and float(f"{value:.{digits}g}") == 1:
        return f"1 {'+' if value > 1 else '−'} {number(abs(value - 1), 1)}"
    return number(value, digits)


def decimal(text: str) -> str:
    """A value that the certificate holds as text: unchanged, but NaN and infinities as words."""
    lowered = text.strip().lower().lstrip("+")
    named = {"nan": "NaN", "inf": "infinity", "-inf": "-infinity"}
    return named.get(lowered.replace("infinity", "inf"), text)


def as_float(text: str) -> float:
    """The float64 that a decimal or C99 hex string denotes; NaN where it denotes none."""
    try:
        return float.fromhex(text) if "0x" in text.lower() else float(text)
    except (ValueError, OverflowError):
        return math.nan


def is_finite(text: str) -> bool:
    """Whether a value held as text is a finite number."""
    return math.isfinite(as_float(text))


def count(n: int) -> str:
    """A count, in groups of three digits with narrow spaces."""
    return f"{n:,}".replace(",", "\u202f")


def plural(n: int, one: str, many: str = "") -> str:
    """A count with its noun."""
    return f"{count(n)} {one if n == 1 else many or one + 's'}"


def words(name: str) -> str:
    """An identifier as words: score_ladder -> score ladder."""
    return name.replace("_", " ")
