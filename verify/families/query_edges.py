"""Query counts one below and one above multiples of common tile lengths, beside a few keys.

Every query has numbers of its own, so that one that is left out, or given another's output, shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Axes, Case, Plan
from verify.families._values import normal_qkv
from verify.family import Family

NAME = "query_edges"
N_K = 20
N_Q = {31: True, 33: False, 63: True, 65: False, 127: True, 129: False, 257: False}  # extensive?


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention":
        return
    for n_q, extensive in N_Q.items():
        axes, smoke = Axes(n_q, N_K), n_q == 129
        recipe = partial(normal_qkv, axes)
        yield plan.attention(NAME, "", axes, recipe, smoke=smoke, extensive=extensive)


FAMILY = Family(
    name=NAME,
    hypothesis="The last partial tile of queries is not computed, or is given the rows of another.",
    effect="The last tokens of a prompt, those that matter most, get garbage.",
    source=(
        "flashinfer-ai/flashinfer issue 358 (out-of-range tiles); flash-attention-jax 0.3.1 "
        "returns 3072 rows for 3000 queries."
    ),
    cases=_cases,
)
