"""Head dimensions from 1 to 576, powers of two or not.

Kernels pad d to a tile and must not let the padding into the dot product, the scale or V.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Axes, Case, Plan
from verify.families._values import normal_qkv
from verify.family import Family

NAME = "head_dimensions"
DIMENSIONS = (1, 8, 15, 40, 72, 80, 96, 112, 128, 192, 256, 576)


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for d in DIMENSIONS:
            axes = Axes(16, 32, d=d) if d % 16 == 0 else Axes(9, 21, d=d)
            extensive = d in (72, 96, 112, 192)  # unrepresentable_scale has them
            yield plan.attention(NAME, "", axes, partial(normal_qkv, axes), extensive=extensive)


FAMILY = Family(
    name=NAME,
    hypothesis="Padding of the head dimension is read, or 1/sqrt(d) uses the padded d.",
    effect="Some model sizes give wrong results while all others pass.",
    source=(
        "microsoft/onnxruntime issue 28195 (NaN above 256); intel/ipex-llm pull request 12619 (the "
        "scale of a padded head dimension)."
    ),
    cases=_cases,
)
