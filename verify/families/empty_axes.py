"""No keys, no queries or no batch entries at all.

Loops run zero times and reductions have no element; rows without keys give 0, not NaN.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.family import Family
from verify.integers import Draws

NAME = "empty_axes"
SHAPES = {
    "no-keys": Axes(3, 0, d=16),
    "no-queries": Axes(0, 5, d=16),
    "no-batch": Axes(4, 4, d=16, batch=0),
}


def _qkv(axes: Axes, draws: Draws) -> Arrays:
    return {"q": draws.normal(axes.q), "k": draws.normal(axes.k), "v": draws.normal(axes.v)}


def _x(shape: tuple[int, int], draws: Draws) -> Array:
    return draws.normal(shape)


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for name, axes in SHAPES.items():
            yield plan.attention(NAME, name, axes, partial(_qkv, axes))
        return
    for shape in ((3, 0), (0, 5)):
        yield plan.rows(NAME, "", shape, partial(_x, shape))


FAMILY = Family(
    name=NAME,
    hypothesis="Empty tensors crash, or rows without keys are left unwritten.",
    effect="The first step of a generation, or the last partial batch, fails.",
    source=(
        "onnx/onnx pull request 8068 (n_k = 0 counts as fully masked); flashinfer- "
        "ai/flashinfer issue 358."
    ),
    cases=_cases,
)
