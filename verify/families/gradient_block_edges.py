"""Gradients at key counts around multiples of common tiles, at three levels of the scores.

A padding key that takes part in the backward pass only has P = exp(0 - LSE): invisible near LSE =
0, e^20 at -20, and infinite at -120, where times a zero of the padding it is NaN.
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

NAME = "gradient_block_edges"
LEVELS = (0, -20, -120)
N_K = (1, 17, 24, 65)


def _inputs(fmt: Format, axes: Axes, level: int, biased: bool, draws: Draws) -> Arrays:
    rows = rows_that_fit(fmt, axes, abs(level) * 64 + 129)
    units = near(draws, rows, axes.n_k, level * 64, 128)
    found = {**exact_qk(fmt, axes, units), "v": draws.normal(axes.v)}
    if biased:  # one bias for each key, shared by all queries
        found["bias"] = draws.normal((axes.n_k,))
    return with_upstream(found, axes, draws)


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention_backward":
        return
    for level in LEVELS:
        for n_k in N_K:
            axes = Axes(17 if n_k < 65 else 9, n_k, d=16)
            yield plan.attention(
                NAME,
                f"S{level}",
                axes,
                partial(_inputs, plan.format, axes, level, False),
                operation=Operation(plan.operation),
                smoke=n_k == 24 and level != 0,
                extensive=n_k in (1, 65) and level == 0,
                notes={"level": float(level)},
            )
        axes = Axes(17, 24, d=16)
        yield plan.attention(
            NAME,
            f"bias-S{level}",
            axes,
            partial(_inputs, plan.format, axes, level, True),
            operation=Operation(plan.operation),
            extras=("bias",),
            extensive=level == -120,
            notes={"level": float(level)},
        )


FAMILY = Family(
    name=NAME,
    hypothesis="The backward pass fills the last tile up with keys of score 0, or drops it.",
    effect="Training on lengths that are no multiple of the tile gives NaN or wrong gradients, "
    "while the forward pass looks right.",
    source="NVIDIA/TransformerEngine issue 1197 (padding in attention); exact scores as in the "
    "forward family block_edges.",
    cases=_cases,
    direction="backward",
)
