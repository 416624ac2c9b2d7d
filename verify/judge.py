"""Judge: the only place where a verdict is decided. It receives numbers and nothing else.

For each element the order is: class (NaN, infinity, finite), then error against bound.

    PASS           upper end of the error <= bound
    FAIL           lower end of the error >  bound: the declared arithmetic is contradicted;
                   or a class that the truth does not allow
    INCONCLUSIVE   the error's interval contains the bound: more precision is asked for
    OUT_OF_SCOPE   the model permits overflow or underflow there, or the bound exceeds the signal
                   sum P|v| so that zeros would pass ("vacuous")
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from references.enclosure import ANYTHING, FINITE, Enclosure
from verify.metrics import ErrorInterval, output_classes

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Verdict(StrEnum):
    """The verdicts, worst first: the order of precedence."""

    INTEGRITY = "INTEGRITY"
    FAIL = "FAIL"
    ERROR = "ERROR"
    INCONCLUSIVE = "INCONCLUSIVE"
    OUT_OF_SCOPE = "OUT_OF_SCOPE"
    PASS = "PASS"


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of a whole from those of its parts: the first in the order of precedence.

    Special     nothing decides nothing: INCONCLUSIVE. Parts out of scope do not take a PASS away.
    """
    found = set(verdicts)
    if not found:
        return Verdict.INCONCLUSIVE
    if Verdict.PASS in found:
        found.discard(Verdict.OUT_OF_SCOPE)
    return next(v for v in Verdict if v in found)


@dataclass(frozen=True)
class Limits:
    """What the judge may know of the bound: numbers per element.

    bound      proved upper bound of the error (+inf: nothing is promised)
    probable   bound of the statistical tier; above it is SUSPECT, never a failure
    flagged    overflow or underflow is permitted by the model
    excused    a non-finite output is permitted as well (never by a missing shift)
    ignored    the kernel declares nothing about the element: anything is accepted
    signal     sum P|v|, or |truth|: a bound at or above it is vacuous
    """

    bound: Array
    probable: Array
    flagged: Mask
    excused: Mask
    ignored: Mask
    signal: Array | None


@dataclass(frozen=True)
class Judgement:
    """The verdict over the elements of one output, with counts and the place of the worst.

    tightness   largest error / bound over the judged elements (upper end), in [0, inf]
    check       which check decided: 'bound', 'finite' or 'class'
    index       flat index of the deciding (else of the tightest) element, or None
    """

    verdict: Verdict
    check: str
    index: int | None
    tightness: float
    median_tightness: float | None
    counts: dict[str, int]

    @property
    def vacuous(self) -> bool:
        return self.counts["vacuous"] > 0 and self.counts["judged"] == 0


def judge(values: Array, truth: Enclosure, error: ErrorInterval, limits: Limits) -> Judgement:
    """Decide one output.

    Shapes      all arrays have the output's shape.
    Guarantee   FAIL only where no real number of the enclosure is within the bound, or where the
                class of the output is none that the truth allows.
    """
    ignored = limits.ignored | (truth.classes == ANYTHING)  # the truth specifies nothing there
    allowed = (output_classes(values) & truth.classes) != 0
    excused = limits.excused & ((truth.classes & FINITE) != 0)
    wrong_class = ~allowed & ~excused & ~ignored
    unknown = ((truth.classes & FINITE) != 0) & ~np.isfinite(truth.radius) & ~ignored
    numeric = allowed & error.comparable & ~limits.flagged & ~ignored
    # `not (error <= bound)`: a NaN in either must not read as agreement.
    within = numeric & (error.upper <= limits.bound)
    beyond = numeric & (error.lower > limits.bound)
    undecided = (numeric & ~within & ~beyond) | (unknown & allowed)
    signal = np.full(values.shape, np.inf) if limits.signal is None else limits.signal
    vacuous = within & (limits.bound >= signal) & (limits.bound > 0)
    judged = within & ~vacuous
    special = (
        allowed & ~error.comparable & ~unknown & ~ignored
    )  # NaN or infinity exactly where it must be
    ratio = _ratio(error.upper, limits.bound, numeric)
    fail = wrong_class | beyond
    counts = {
        "elements": int(values.size),
        "judged": int(judged.sum() + special.sum()),
        "failed": int(fail.sum()),
        "inconclusive": int(undecided.sum()),
        "flagged": int(((limits.flagged | ignored) & ~wrong_class).sum()),
        "unspecified": int((ignored & ~wrong_class).sum()),
        "vacuous": int(vacuous.sum()),
        "suspect": int((numeric & ~beyond & (error.lower > limits.probable)).sum()),
    }
    scored = judged | beyond
    return Judgement(
        _verdict(counts),
        _check(wrong_class, truth, values),
        _place(wrong_class, beyond, undecided, ratio),
        float(ratio[scored].max()) if scored.any() else 0.0,
        float(np.median(ratio[judged])) if judged.any() else None,
        counts,
    )


def _ratio(upper: Array, bound: Array, numeric: Mask) -> Array:
    ratio = np.zeros(upper.shape)
    positive = numeric & (bound > 0)
    np.divide(upper, bound, out=ratio, where=positive)
    ratio[numeric & (bound == 0) & (upper > 0)] = np.inf
    return ratio


def _verdict(counts: dict[str, int]) -> Verdict:
    if counts["failed"]:
        return Verdict.FAIL
    if counts["inconclusive"]:
        return Verdict.INCONCLUSIVE
    if counts["judged"]:
        return Verdict.PASS
    return Verdict.OUT_OF_SCOPE if counts["elements"] else Verdict.PASS


def _check(wrong_class: Mask, truth: Enclosure, values: Array) -> str:
    if not wrong_class.any():
        return "bound"
    finite_truth = (truth.classes & FINITE) != 0
    return "finite" if (wrong_class & finite_truth & ~np.isfinite(values)).any() else "class"


def _place(wrong_class: Mask, beyond: Mask, undecided: Mask, ratio: Array) -> int | None:
    if wrong_class.any():
        return int(np.flatnonzero(wrong_class)[0])
    if not ratio.size:
        return None
    for chosen in (beyond, undecided):
        if chosen.any():
            return int(np.argmax(np.where(chosen, ratio, -1.0)))
    return int(np.argmax(ratio))
