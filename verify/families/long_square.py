"""As many queries as keys, 1024 (extensive: 4096 as well), with and without the causal option.

Sums are as long as in use, all tiles of a real grid take part, and every query is judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Axes, Case, Plan
from verify.families._values import normal_qkv
from verify.family import Family
from verify.operation import Operation

NAME = "long_square"
SIZES = (1024, 4096)


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention":
        return
    for size in SIZES:
        axes = Axes(size, size)
        for name, operation in (
            ("", Operation("attention")),
            ("causal", Operation("attention", causal=True)),
        ):
            recipe = partial(normal_qkv, axes)
            long = size > 1024  # every score of it takes part in a bound: half a minute a kernel
            yield plan.attention(
                NAME,
                name,
                axes,
                recipe,
                operation=operation,
                extensive=long,
                notes={"full": 1.0},
            )


FAMILY = Family(
    name=NAME,
    hypothesis="Tiles are skipped, visited twice or scheduled wrongly in large grids only.",
    effect="Benchmarks pass on small inputs and production fails on long ones.",
    source=("Dao-AILab/flash-attention hopper/test_flash_attn.py (sequence lengths up to 4096)."),
    cases=_cases,
)
