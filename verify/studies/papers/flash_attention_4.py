"""FlashAttention-4, table 2: 2^x on [0, 1) by polynomials, before and after rounding to bf16."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from verify.formats import BFLOAT16, BINARY16, BINARY32
from verify.integers import Draws
from verify.studies.document import FALSE, HOLDS, LIMITED, Claim, Judgement, Part, Table
from verify.studies.running import Array

ORDER = 2026.0
SOURCE = (
    "FlashAttention-4, 2026, arXiv 2603.05451, table 2 (figures read in a summary of the paper)"
)
# Largest relative error over 4 million inputs in [0, 1): binary32 result, and after bf16.
PAPER: Mapping[str, tuple[float, float]] = {
    "hardware (MUFU.EX2)": (1.41e-7, 3.89e-3),
    "polynomial of degree 3": (8.77e-5, 3.90e-3),
    "polynomial of degree 5": (1.44e-7, 3.89e-3),
}
# Coefficients, lowest first: Dao-AILab/flash-attention, flash_attn/cute/utils.py, POLY_EX2 (found
# there with Sollya's fpminimax for the relative error on [0, 1]).
COEFFICIENTS: Mapping[int, tuple[float, ...]] = {
    3: (1.0, 0.695146143436431884765625, 0.227564394474029541015625, 0.077119089663028717041015625),
    5: (
        1.0,
        0.693151414394378662109375,
        0.24016360938549041748046875,
        5.5802188813686370849609375e-2,
        9.01452265679836273193359375e-3,
        1.86810153536498546600341796875e-3,
    ),
}
CONFIRMED = 32  # the worst inputs of each function, whose error Arb confirms


@dataclass(frozen=True)
class Errors:
    """Largest relative error, its share of the unit roundoff of each format, and what rounding to
    bf16 and fp16 makes of it: largest relative error, share of results that are not the nearest."""

    single: float
    bf16: float
    fp16: float
    off_bf16: float
    off_fp16: float


def polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    """Horner's rule in binary32 with fma.

    The product of two binary32 numbers is exact in float64; the sum is rounded there once before
    it is rounded to binary32, which can differ from one fma by 2^-53 relatively.
    """
    total = np.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = BINARY32.round(total * x + c)
    return total


def library(x: Array) -> Array:
    """torch.exp2 in binary32, on this CPU."""
    import torch

    return np.asarray(torch.exp2(torch.from_numpy(x).float()).double().numpy(), np.float64)


def relative(values: Array, x: Array) -> float:
    """The largest relative error, an upper end that Arb confirms.

    Guarantee   for the CONFIRMED inputs with the largest error by float64's exp2, the error lies
                below the returned value; float64's exp2 (1 ulp where it is good) ranks the others.
    """
    import flint

    error = np.abs(values / np.exp2(x) - 1)
    worst = np.argpartition(error, -CONFIRMED)[-CONFIRMED:]
    ends = []
    with flint.ctx.workprec(200):
        for i in worst:
            exact = flint.arb(2) ** flint.arb(float(x[i]))
            ends.append(float((abs(flint.arb(float(values[i])) / exact - 1)).upper()))
    return max(ends)


def errors(values: Array, x: Array) -> Errors:
    """All measures of one function."""
    exact = np.exp2(x)
    found = {}
    for fmt in (BFLOAT16, BINARY16):
        rounded = fmt.round(values)
        found[fmt.name] = (relative(rounded, x), float(np.mean(rounded != fmt.round(exact))))
    (bf16, off_bf16), (fp16, off_fp16) = found["bf16"], found["fp16"]
    return Errors(relative(values, x), bf16, fp16, off_bf16, off_fp16)


def measure(count: int) -> dict[str, Errors]:
    """Both polynomials and the library's function on the same inputs."""
    x = BINARY32.round(Draws("study flash-attention-4").uniform((count,)))
    x = x[x < 1]
    values = {f"polynomial of degree {n}": polynomial(x, c) for n, c in COEFFICIENTS.items()}
    values["torch.exp2 on this CPU"] = library(x)
    return {name: errors(v, x) for name, v in values.items()}


def judge(found: Mapping[str, Errors]) -> Judgement:
    """Are the figures of the polynomials those of the paper, and does bf16 hide degree 3?"""
    three, five = found["polynomial of degree 3"], found["polynomial of degree 5"]
    figure = (
        f"degree 3: {three.single:.3g}, after bf16 {three.bf16:.3g}; degree 5: {five.single:.3g}, "
        f"after bf16 {five.bf16:.3g}; rounding alone costs up to {_rounding():.3g}"
    )
    near = all(
        abs(getattr(e, column) / PAPER[name][index] - 1) < 0.1
        for name, e in (("polynomial of degree 3", three), ("polynomial of degree 5", five))
        for index, column in enumerate(("single", "bf16"))
    )
    if not near or three.bf16 > 1.05 * _rounding():
        return Judgement(FALSE, figure)
    if three.off_fp16 < 0.01:
        return Judgement(HOLDS, figure)
    limits = (
        f"for bf16: degree 3 changes {100 * three.off_bf16:.2g} % of the rounded results there, "
        f"but {100 * three.off_fp16:.2g} % of those rounded to fp16. The hardware unit was not "
        "measured: no such unit here"
    )
    return Judgement(LIMITED, figure, limits)


def _rounding() -> float:
    """The largest relative error of one rounding to bf16, u / (1 + u)."""
    return BFLOAT16.u / (1 + BFLOAT16.u)


def part(*, small: bool = False) -> Part:
    """Measure, judge, and lay out."""
    count = 2**12 if small else 4_000_000
    found = measure(count)
    rows = [
        (
            name,
            *(PAPER.get(name, ("—", "—"))),
            e.single,
            e.bf16,
            f"{100 * e.off_bf16:.2g} %",
            f"{100 * e.off_fp16:.2g} %",
        )
        for name, e in found.items()
    ]
    hardware = "hardware (MUFU.EX2)"
    rows.append((hardware, *PAPER[hardware], "not measured", "not measured", "—", "—"))
    columns = (
        "largest relative error of", "paper", "paper, after bf16", "ours", "ours, after bf16",
        "not nearest in bf16", "not nearest in fp16",
    )  # fmt: skip
    return Part(
        name="flash_attention_4",
        title="FlashAttention-4: an exponential from a polynomial",
        text=(
            "To spare the GPU's slow unit for 2^x, FlashAttention-4 computes part of the "
            "exponentials with a polynomial of degree 3. P is rounded to 16 bits afterwards; the "
            "last columns count results that this rounding no longer brings to the nearest number."
        ),
        claims=(
            Claim(
                "The polynomial of degree 3 errs by 8.77e-5, yet after rounding to bf16 it is as "
                "accurate as the hardware (3.90e-3 against 3.89e-3).",
                SOURCE,
                judge(found),
            ),
        ),
        tables=(
            Table(
                "FlashAttention-4, table 2",
                columns,
                tuple(rows),
                f"{count} inputs that are multiples of 2^-30, rounded to binary32; the {CONFIRMED} "
                "largest errors of each column are confirmed by Arb. Inputs are exact in both "
                "conventions.",
            ),
        ),
    )
