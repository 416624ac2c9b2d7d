"""Log-sum-exps of +-1e3 to +-1e5, from scores that every kernel forms exactly.

P = exp(s - LSE) with a stored binary32 LSE is wrong by the factor e^(u |LSE|) in the whole row: P
no longer adds up to 1, and the error grows with the level although s - m does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Arrays, Axes, Case, Plan
from verify.families._exact_scores import exact_qk, near, rows_that_fit
from verify.families._values import with_upstream
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws
from verify.operation import Operation

NAME = "large_lse_gradient"
LEVELS = (1000, -1000, 10000, -10000, 100000, -100000)


def _inputs(fmt: Format, axes: Axes, level: int, draws: Draws) -> Arrays:
    rows = rows_that_fit(fmt, axes, abs(level) * 64 + 129)
    units = near(draws, rows, axes.n_k, level * 64, 128)
    return with_upstream({**exact_qk(fmt, axes, units), "v": draws.normal(axes.v)}, axes, draws)


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention_backward":
        return
    axes = Axes(16, 33, d=16)
    for level in LEVELS:
        if plan.format.largest < 2.0**20 and abs(level) > 10000:
            continue
        yield plan.attention(
            NAME,
            f"S{level}",
            axes,
            partial(_inputs, plan.format, axes, level),
            operation=Operation(plan.operation),
            smoke=abs(level) == 1000,
            notes={"level": float(level)},
        )


FAMILY = Family(
    name=NAME,
    hypothesis="P is formed again from statistics that were rounded, or of another row.",
    effect="Models without normalised queries get gradients with a row-wise factor.",
    source="Derived in docs/theory/bounds.md, section 14: an error of the LSE is a factor of the "
    "row; Dao: FlashAttention-2, arXiv 2307.08691 (the log-sum-exp is what is stored).",
    cases=_cases,
    direction="backward",
)
