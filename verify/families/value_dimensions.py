"""V with more, fewer or only one column than the head dimension.

Each column is an independent sum, so any error here is one of indexing or padding.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Axes, Case, Plan
from verify.families._values import normal_qkv
from verify.family import Family

NAME = "value_dimensions"
PAIRS = ((64, 128), (192, 128), (64, 1), (40, 72), (576, 512))


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for d, d_v in PAIRS:
            axes = Axes(16, 32, d=d, d_v=d_v) if d == 64 else Axes(5, 37, d=d, d_v=d_v)
            yield plan.attention(NAME, "", axes, partial(normal_qkv, axes), extensive=d == 576)


FAMILY = Family(
    name=NAME,
    hypothesis="The kernel takes d for d_v.",
    effect=("Models with separate value dimensions, such as multi-head latent attention, fail."),
    source="DeepSeek-V2 technical report, arXiv 2405.04434, 2024 (d = 192, d_v = 128).",
    cases=_cases,
)
