"""One axis is long and the others are short: many queries, heads, sequences, or rows of a softmax.

A grid that stops at its limit, or an index that wraps, leaves the far end unwritten or repeats what
came before; each of them has inputs of its own, so that neither passes for the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Array, Axes, Case, Plan
from verify.families._values import normal_qkv
from verify.family import Family
from verify.integers import Draws

NAME = "long_axes"
AXES = {
    "queries": Axes(3000, 5, d=16),
    "heads": Axes(3, 5, d=16, heads=72),
    "batch": Axes(3, 5, d=16, batch=70, heads=2),
}
# more than the 65535 blocks that a CUDA grid has along its y and z axes
LONGEST = {"queries": Axes(70001, 2, d=16), "batch": Axes(1, 2, d=16, batch=65537)}
# extensive? The last takes minutes where one program a row is interpreted.
ROWS = {(1300, 3): False, (5001, 3): False, (70001, 3): True}


def _x(shape: tuple[int, int], draws: Draws) -> Array:
    return draws.normal(shape)


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for longest, chosen in ((False, AXES), (True, LONGEST)):
            for name, axes in chosen.items():
                recipe = partial(normal_qkv, axes)
                smoke = name == "heads"
                yield plan.attention(NAME, name, axes, recipe, smoke=smoke, extensive=longest)
    else:
        for shape, longest in ROWS.items():
            yield plan.rows(NAME, "rows", shape, partial(_x, shape), extensive=longest)


FAMILY = Family(
    name=NAME,
    hypothesis="What lies past a limit of the grid, or of an index, is not computed or repeats "
    "what lies before it.",
    effect="Long prompts, large batches and models of many heads give garbage past the limit.",
    source=(
        "pytorch/pytorch issues 146704 and 142228, facebookresearch/xformers issue 845 (65536 "
        "sequences or heads), Dao-AILab/flash-attention issue 1812 (71280 queries)."
    ),
    cases=_cases,
)
