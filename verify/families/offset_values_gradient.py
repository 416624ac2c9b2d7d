"""Values with a common offset: dP and D are large, and their difference is what counts.

With V constant in every column dS is exactly 0, and so are dQ and dK; with an offset of 64 they are
what is left of a cancellation. A gradient without D is wrong by the size of the offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Case, Plan
from verify.families._values import with_upstream
from verify.family import Family
from verify.integers import Draws
from verify.operation import Operation

NAME = "offset_values_gradient"


def _inputs(axes: Axes, kind: str, draws: Draws) -> Arrays:
    v = draws.normal(axes.v)
    v = np.broadcast_to(v[..., :1, :], axes.v) if kind == "constant" else v + 64.0
    found = {"q": draws.normal(axes.q), "k": draws.normal(axes.k), "v": v}
    return with_upstream(found, axes, draws)


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention_backward":
        return
    axes = Axes(16, 32, d=16)
    for kind in ("constant", "offset"):
        yield plan.attention(
            NAME,
            kind,
            axes,
            partial(_inputs, axes, kind),
            operation=Operation(plan.operation),
            smoke=kind == "offset",
        )


FAMILY = Family(
    name=NAME,
    hypothesis="D is left out, formed from another row, or rounded before it is subtracted.",
    effect="Queries and keys are pushed along the mean of the values, which carries no signal.",
    source="Dao et al.: FlashAttention, arXiv 2205.14135, 2022 (backward: D = rowsum(dO O)).",
    cases=_cases,
    direction="backward",
)
