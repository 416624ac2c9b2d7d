"""Scores without any rounding error at levels from 0 to 1e5 of both signs.

Products and partial sums are integers below 2^24 in one unit, so the bound has no term in |s| and
stays sharp where the usual one says nothing: what is left is shift, exponential, sums and P.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Arrays, Axes, Case, Plan
from verify.families._exact_scores import exact_qk, near, rows_that_fit
from verify.families._values import with_ones
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws
from verify.operation import Operation

NAME = "exact_scores"
LEVELS = (0, 100, 1000, 10_000, 100_000, -20, -120, -1000, -20_000, -60_000, -100_000)
WIDE_LEVELS = (120, -120, 10_000)
SPREAD = 8 * 64
SHAPES: tuple[tuple[Axes, tuple[int, ...], float | None], ...] = (
    (Axes(16, 16), LEVELS, None),
    (Axes(1, 2, d=16), (-20_000, -60_000), None),
    (Axes(32, 512), WIDE_LEVELS, None),
    (Axes(6, 203, d=80), WIDE_LEVELS, 2.0**-5),
)


def _qkv(fmt: Format, axes: Axes, level: int, scale: float | None, draws: Draws) -> Arrays:
    rows = rows_that_fit(fmt, axes, abs(level) * 64 + SPREAD + 1)
    units = near(draws, rows, axes.n_k, level * 64, min(SPREAD, axes.n_k * 64))
    return {**exact_qk(fmt, axes, units, scale=scale), "v": with_ones(draws, axes)}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention":
        return
    for axes, levels, scale in SHAPES:
        for level in levels:
            yield plan.attention(
                NAME,
                f"S{level}",
                axes,
                partial(_qkv, plan.format, axes, level, scale),
                operation=Operation("attention", scale=scale),
                smoke=level in (-60_000, 10_000) and axes.n_k == 16,
                notes={"level": float(level)},
            )


FAMILY = Family(
    name=NAME,
    hypothesis="Shift, maximum, rescaling or exponential are wrong at large |s|, where a bound "
    "with the score error in it would excuse anything.",
    effect="Large-norm rows lose or invent probability mass, and no tolerance notices.",
    source=(
        "Li et al.: Design, implementation and testing of extended and mixed precision BLAS, ACM "
        "TOMS 28(2), 2002 (inputs with prescribed exact results); flashinfer-ai/flashinfer issue "
        "4267 and ohdearquant/lattice issue 361 (valid scores below a sentinel)."
    ),
    cases=_cases,
)
