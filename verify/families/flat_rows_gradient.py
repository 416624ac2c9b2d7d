"""Long flat rows: gradients of order 1 / n^2, and row sums whose square leaves a 16-bit range.

Attention: P is about 1 / n and dO about 1 / n, the loss being a mean: binary16 loses dS where a
kernel stores it, and the model says by how much; a kernel that keeps dS in binary32 has the
gradients right.

Softmax and log-softmax: the row sum l is n, and dy has a mean, so that the sum over the row counts.
Differentiating e / l step by step forms 1 / l^2, and 256^2 exceeds binary16: the sum is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Case, Plan
from verify.family import Family
from verify.integers import Draws
from verify.operation import Operation

NAME = "flat_rows_gradient"


def _inputs(axes: Axes, draws: Draws) -> Arrays:
    small = np.ldexp(1.0, -axes.n_k.bit_length())
    return {
        "q": draws.normal(axes.q) * 0.25,
        "k": draws.normal(axes.k) * 0.25,
        "v": draws.normal(axes.v),
        "do": draws.normal((axes.batch, axes.heads, axes.n_q, axes.d_v)) * small,
    }


def _rows(shape: tuple[int, int], draws: Draws) -> Arrays:
    return {"x": np.broadcast_to(draws.normal((shape[0], 1)), shape), "dy": draws.normal(shape) + 2}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention_backward":
        for n, profile in ((256, "smoke"), (1000, "standard"), (4096, "extensive")):
            shape = (1 if n == 4096 else 2, n)
            yield plan.rows(
                NAME, "", shape, partial(_rows, shape), smoke=profile == "smoke",
                extensive=profile == "extensive",
            )  # fmt: skip
        return
    for axes, extensive in ((Axes(4, 1024, d=16), False), (Axes(2, 4096, d=16), True)):
        yield plan.attention(
            NAME, "", axes, partial(_inputs, axes), operation=Operation(plan.operation),
            extensive=extensive,
        )  # fmt: skip


FAMILY = Family(
    name=NAME,
    hypothesis="dS is flushed or rounded more coarsely than its format demands, or the sum over a "
    "row is lost with the square of the row sum.",
    effect="Long contexts stop learning: their gradients are 0 without loss scaling.",
    source="Micikevicius et al.: Mixed precision training, arXiv 1710.03740, 2018 (loss scaling); "
    "dS ~ |dO| |V| / n on flat rows.",
    cases=_cases,
    direction="backward",
)
