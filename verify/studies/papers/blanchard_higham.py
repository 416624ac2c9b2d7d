"""Blanchard, Higham and Higham: bounds of softmax in half precision, on rows of ten numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

import references
from verify.formats import BINARY16
from verify.integers import Draws
from verify.studies.document import FALSE, HOLDS, LIMITED, Claim, Judgement, Part, Table
from verify.studies.running import Array, array, rows, stored, tensor

ORDER = 2021.0
SOURCE = (
    "Blanchard, D. J. Higham, N. J. Higham, Accurately computing the log-sum-exp and softmax "
    "functions, IMA J. Numer. Anal. 41(4), 2021, doi 10.1093/imanum/draa038"
)
N = 10
ROWS = 2500
PAPER_OVERFLOWS = 475  # of 2500 rows: outputs of a network on handwritten digits, not ours

Kernel = Callable[[Array], Array]
Bound = Callable[[Array, Array], Array]


def _kernels() -> dict[str, Kernel]:
    from verify.studies import simulations

    def naive(x: Array) -> Array:
        return rows("textbook-softmax-naive", x, "fp16")

    def shifted(x: Array) -> Array:
        return rows("textbook-softmax-shifted[format=fp16]", x, "fp16")

    def free(x: Array) -> Array:
        return array(simulations.division_free_softmax(tensor(x, "fp16")))

    def shifted_free(x: Array) -> Array:
        return array(simulations.shifted_division_free_softmax(tensor(x, "fp16")))

    return {
        "basic": naive,
        "division-free": free,
        "shifted": shifted,
        "shifted, division-free": shifted_free,
    }


def _lse_kernels() -> dict[str, Kernel]:
    from verify.studies.simulations import basic_logsumexp

    def basic(x: Array) -> Array:
        return array(basic_logsumexp(tensor(x, "fp16")))

    def shifted(x: Array) -> Array:
        return rows("textbook-logsumexp-shifted[format=fp16]", x, "fp16")

    return {"log-sum-exp, basic": basic, "log-sum-exp, shifted": shifted}


# In units of u, up to terms of order u^2; x the rows, y their log-sum-exp. Theorems 3.3, 4.3 and
# 4.4 and the text after 3.3, as the authors' test code has them (chop_test_softmax.m in
# higham/logsumexp-softmax-tests).
BOUNDS: Mapping[str, tuple[str, Bound]] = {
    "basic": ("n + 3", lambda x, y: np.full(len(x), N + 3.0)),
    "division-free": (
        "|y| + max|x - y| + n + 2",
        lambda x, y: np.abs(y) + np.abs(x - y[:, None]).max(axis=1) + N + 2,
    ),
    "shifted": (
        "n + 2 + 2 (max x - min x)",
        lambda x, y: N + 2 + 2 * (x.max(axis=1) - x.min(axis=1)),
    ),
    "shifted, division-free": (
        "1 + max|x - y| + |y + n - min x|",
        lambda x, y: 1 + np.abs(x - y[:, None]).max(axis=1) + np.abs(y + N - x.min(axis=1)),
    ),
}


# Theorems 3.2 and 4.2, relative to |y|.
LSE_BOUNDS: Mapping[str, tuple[str, Bound]] = {
    "log-sum-exp, basic": ("1 + (n + 1) / |y|", lambda x, y: 1 + (N + 1) / np.abs(y)),
    "log-sum-exp, shifted": (
        "|y + n - min x| / |y|",
        lambda x, y: np.abs(y + N - x.min(axis=1)) / np.abs(y),
    ),
}


@dataclass(frozen=True)
class Row:
    """One algorithm: rows lost to overflow (NaN, or 0 throughout); of the others, the largest and
    the median error in the infinity norm relative to that of the truth, in u, and the largest ratio
    of error to bound."""

    lost: int
    largest: float
    typical: float
    tightness: float


def draw(count: int) -> Array:
    """Rows of ten: a spread between 1 and 8 and an offset, so that one row in five or so exceeds
    11.09, where exp overflows in fp16."""
    draws = Draws("study blanchard-higham")
    spread = 1 + 7 * draws.uniform((count, 1))
    offset = 4 * draws.normal((count, 1))
    return stored(np.asarray(spread * draws.normal((count, N)) + offset / 2, np.float64), "fp16")


def measure(count: int, kernels: Mapping[str, Kernel]) -> dict[str, Row]:
    """Errors of the algorithms on the same rows, every step rounded to fp16."""
    x = draw(count)
    truth = references.softmax(x)
    y = references.logsumexp(x).hi
    top = truth.hi.max(axis=1)
    found = {}
    for name, kernel in kernels.items():
        out = kernel(x)
        kept = np.isfinite(out).all(axis=1) & (out.max(axis=1) > 0)  # a sum of inf leaves zeros
        error = np.abs(out[kept] - truth.hi[kept]).max(axis=1) / top[kept] / BINARY16.u
        bound = BOUNDS[name][1](x[kept], y[kept])
        found[name] = Row(
            int((~kept).sum()),
            float(error.max(initial=0.0)),
            float(np.median(error)) if len(error) else 0.0,
            float((error / bound).max(initial=0.0)),
        )
    return found


def measure_lse(count: int, kernels: Mapping[str, Kernel]) -> dict[str, Row]:
    """The same for log-sum-exp; errors relative to the truth, which must not be 0."""
    x = draw(count)
    y = references.logsumexp(x).hi
    found = {}
    for name, kernel in kernels.items():
        out = kernel(x)
        kept = np.isfinite(out)
        error = np.abs(out[kept] - y[kept]) / np.abs(y[kept]) / BINARY16.u
        bound = LSE_BOUNDS[name][1](x[kept], y[kept])
        found[name] = Row(
            int((~kept).sum()),
            float(error.max(initial=0.0)),
            float(np.median(error)) if len(error) else 0.0,
            float((error / bound).max(initial=0.0)),
        )
    return found


def judge_bounds(found: Mapping[str, Row]) -> Judgement:
    """Does every error stay within its bound?"""
    worst = {name: row.tightness for name, row in found.items()}
    figure = "largest error / bound: " + ", ".join(f"{n} {t:.2g}" for n, t in worst.items())
    return Judgement(HOLDS if max(worst.values()) <= 1 else FALSE, figure)


def judge_shift(found: Mapping[str, Row], count: int) -> Judgement:
    """Does the shifted formula never overflow, and is it as accurate?"""
    basic, shifted = found["basic"], found["shifted"]
    figure = (
        f"overflow in {basic.lost} of {count} rows without the shift, {shifted.lost} with it; "
        f"typical error {basic.typical:.2g} u and {shifted.typical:.2g} u, largest "
        f"{basic.largest:.2g} u and {shifted.largest:.2g} u"
    )
    if shifted.lost or not basic.lost:
        return Judgement(FALSE, figure)
    if shifted.typical > 3 * basic.typical:
        return Judgement(LIMITED, figure, "the shift costs accuracy on these rows")
    return Judgement(HOLDS, figure)


def judge_division(found: Mapping[str, Row]) -> Judgement:
    """Does leaving out the division cost accuracy?"""
    shifted, free = found["shifted"], found["shifted, division-free"]
    figure = (
        f"largest error {free.largest:.2g} u without division, {shifted.largest:.2g} u with it; "
        f"typical {free.typical:.2g} u and {shifted.typical:.2g} u"
    )
    return Judgement(HOLDS if free.largest > shifted.largest else FALSE, figure)


def part(*, small: bool = False) -> Part:
    """Measure, judge, and lay out."""
    count = 100 if small else ROWS
    found = measure(count, _kernels())
    sums = measure_lse(count, _lse_kernels())
    words = {**BOUNDS, **LSE_BOUNDS}
    table = tuple(
        (name, words[name][0], r.lost, r.typical, r.largest, r.tightness)
        for name, r in {**found, **sums}.items()
    )
    columns = (
        "algorithm, all in fp16", "bound / u", "rows that overflow", "typical error / u",
        "largest error / u", "largest error / bound",
    )  # fmt: skip
    return Part(
        name="blanchard_higham",
        title="Softmax in half precision: do the published bounds hold?",
        text=(
            f"{count} rows of {N} numbers; every subtraction, exponential, sum and division "
            "is rounded to fp16 (u = 2^-11). The paper's rows are outputs of a network on "
            "handwritten digits; these are drawn, with a spread and an offset, because the paper's "
            "are not published. Inputs are exact, so that both conventions agree."
        ),
        claims=(
            Claim(
                "The errors stay within the bounds of the theorems.",
                SOURCE,
                judge_bounds({**found, **sums}),
            ),
            Claim(
                f"Subtracting the maximum removes overflow ({PAPER_OVERFLOWS} of {ROWS} rows to 0) "
                "and is as accurate as the basic formula.",
                SOURCE,
                judge_shift(found, count),
            ),
            Claim("Without division, softmax can lose accuracy.", SOURCE, judge_division(found)),
        ),
        tables=(Table("Softmax and log-sum-exp in fp16", columns, table),),
    )
