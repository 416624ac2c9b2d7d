"""Claim: subtracting the maximum changes nothing in exact arithmetic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from verify.integers import Draws
from verify.studies.document import FALSE, HOLDS, Claim, Judgement, Part, Table
from verify.studies.scaling._grid import Grid

ORDER = 50
SOURCE = "textbook identity; Goodfellow, Bengio, Courville, Deep Learning, 2016, section 4.1"
PRECISIONS = (64, 128, 256, 512, 1024)

Row = Sequence[Fraction]
Shift = Callable[[Row], Row]


def by_maximum(x: Row) -> Row:
    """x - max x, exactly."""
    m = max(x)
    return [v - m for v in x]


@dataclass(frozen=True)
class Difference:
    """Enclosure of softmax(x)_j - softmax(shifted x)_j over all entries: does each contain 0, and
    the largest magnitude that any may have."""

    contains_zero: bool
    largest: float


def defects(x: Row, shift: Shift) -> int:
    """Entries j whose two softmax values differ, decided without evaluating any exponential.

    softmax(x)_j = softmax(y)_j if and only if sum_k exp(x_j + y_k) = sum_k exp(y_j + x_k).  Both
    sides are sums of exponentials of rational numbers.  Exponentials of different rational numbers
    are linearly independent over the rationals (Lindemann and Weierstrass), so that the sums are
    equal if and only if the exponents are the same, each as often.
    """
    y = shift(x)
    return sum(Counter(x[j] + v for v in y) != Counter(y[j] + v for v in x) for j in range(len(x)))


def difference(x: Row, shift: Shift, bits: int) -> Difference:
    """The differences as Arb balls at a working precision."""
    import flint

    with flint.ctx.workprec(bits):
        first, second = _softmax(x), _softmax(shift(x))
        balls = [a - b for a, b in zip(first, second, strict=True)]
        largest = max(float(abs(b).upper()) for b in balls)
        return Difference(all(b.contains(0) for b in balls), largest)


def _softmax(x: Row) -> list[Any]:
    import flint

    e = [flint.arb(flint.fmpq(v.numerator, v.denominator)).exp() for v in x]
    total = sum(e, flint.arb(0))
    return [v / total for v in e]


def rows(count: int, n: int) -> list[Row]:
    """Rows of scores as binary32 holds them, of every spread from 1 to 1000."""
    draws = Draws("study scaling shift")
    found: list[Row] = []
    for i in range(count):
        units = draws.integers(-(2**20), 2**20, (n,))
        found.append([Fraction(int(u), 2**20) * 10 ** (i % 4) for u in units])
    return found


def judge(wrong: int, entries: int, differences: Mapping[int, Difference]) -> Judgement:
    """No entry differs, and every enclosure of the difference contains 0 and shrinks."""
    bits = max(differences)
    figure = (
        f"{wrong} of {entries} entries differ (decided by their exponents, exactly); Arb's "
        f"enclosures of the difference {'all' if _all_zero(differences) else 'do not all'} contain "
        f"0, and with {bits} bits none reaches {differences[bits].largest:.1g}"
    )
    shrinks = differences[bits].largest < differences[min(differences)].largest
    holds = wrong == 0 and _all_zero(differences) and shrinks
    return Judgement(HOLDS if holds else FALSE, figure)


def _all_zero(differences: Mapping[int, Difference]) -> bool:
    return all(d.contains_zero for d in differences.values())


def measure(count: int, n: int, shift: Shift) -> tuple[int, dict[int, Difference]]:
    """Differing entries, and enclosures of the differences by precision."""
    drawn = rows(count, n)
    wrong = sum(defects(x, shift) for x in drawn)
    found = {}
    for bits in PRECISIONS:
        each = [difference(x, shift, bits) for x in drawn]
        found[bits] = Difference(all(d.contains_zero for d in each), max(d.largest for d in each))
    return wrong, found


def part(grid: Grid, *, small: bool = False) -> Part:
    """The proof by exponents, and the enclosures."""
    count, n = (4, 8) if small else (40, 64)
    wrong, found = measure(count, n, by_maximum)
    table = tuple(
        (f"{bits} bits", "yes" if d.contains_zero else "no", f"{d.largest:.2g}")
        for bits, d in found.items()
    )
    return Part(
        name="shift_exact",
        title="Does subtracting the maximum change anything?",
        text=(
            "exp(x - m) is exp(x) divided by exp(m); numerator and sum carry the same factor. To "
            "compare both forms without rounding, their quotients are multiplied out: what remains "
            "are two sums of exponentials, equal exactly when their exponents are. The enclosures "
            "show the same in numbers: the more bits, the closer to 0."
        ),
        claims=(
            Claim(
                "Subtracting the maximum changes nothing in exact arithmetic.",
                SOURCE,
                judge(wrong, count * n, found),
            ),
        ),
        tables=(
            Table(
                "Enclosures of softmax(x) - softmax(x - max x)",
                ("working precision", "contain 0", "largest magnitude possible"),
                table,
                f"{count} rows of {n} scores, spread 1 to 1000.",
            ),
        ),
    )
