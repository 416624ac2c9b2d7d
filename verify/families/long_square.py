"""4096 queries over 4096 keys, with and without the causal option.

Sums are as long as in use, all tiles of a real grid take part, and every query is judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Axes, Case, Family, Plan
from verify.families._values import normal_qkv
from verify.operation import Operation

NAME = "long_square"
AXES = Axes(4096, 4096)


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention":
        return
    for name, operation in (
        ("", Operation("attention")),
        ("causal", Operation("attention", causal=True)),
    ):
        recipe = partial(normal_qkv, AXES)
        yield plan.attention(NAME, name, AXES, recipe, operation=operation, notes={"full": 1.0})


FAMILY = Family(
    name=NAME,
    hypothesis="Tiles are skipped, visited twice or scheduled wrongly in large grids only.",
    effect="Benchmarks pass on small inputs and production fails on long ones.",
    source=("Dao-AILab/flash-attention hopper/test_flash_attn.py (sequence lengths up to 4096)."),
    cases=_cases,
)
