"""One query over a cache of keys, as in generation, with and without the causal option.

With n_q = 1 the causal mask removes nothing if the diagonal ends in the last corner, and all keys
but one if it starts in the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Axes, Case, Plan
from verify.families._values import normal_qkv
from verify.family import Family
from verify.operation import Operation

NAME = "decode"
LENGTHS = (2, 37, 256, 4096)


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention":
        return
    for n_k in LENGTHS:
        axes = Axes(1, n_k, d=128, heads=2 if n_k < 4096 else 1)
        yield plan.attention(NAME, "", axes, partial(normal_qkv, axes), smoke=n_k == 37)
    causal = Operation("attention", causal=True)
    for n_k in (16, 257):
        axes = Axes(1, n_k, d=16, batch=2, heads=3)
        recipe = partial(normal_qkv, axes)
        yield plan.attention(NAME, "causal", axes, recipe, operation=causal)


FAMILY = Family(
    name=NAME,
    hypothesis=(
        "The decoding path, often a different kernel, masks the cache or reads past its length."
    ),
    effect="Generation differs from prefill: the model forgets its prompt.",
    source=(
        "FlashAttention 2.1 change log (bottom-right corner); Dao-AILab/flash-attention "
        "issue 1570 (one sequence's length changes another's result)."
    ),
    cases=_cases,
)
