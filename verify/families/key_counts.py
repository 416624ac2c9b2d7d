"""Many keys, in numbers that are no multiple of a long block; each 64th of them has a value column.

The output is the share of the probability that each 64th of the keys has: keys that are left out
or counted twice change it by as much, whatever the length of the block.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.family import Family
from verify.integers import Draws

NAME = "key_counts"
N_K = (1100, 1536, 2500, 4500, 9000, 70001)
EXTENSIVE = (2500, 4500, 70001)  # the last is past what 16 bits count


def _qkv(axes: Axes, draws: Draws) -> Arrays:
    part = np.arange(axes.n_k) * axes.d_v // axes.n_k
    v = np.broadcast_to(part[:, None] == np.arange(axes.d_v), axes.v)
    return {"q": draws.normal(axes.q), "k": draws.normal(axes.k), "v": np.asarray(v, np.float64)}


def _x(shape: tuple[int, int], draws: Draws) -> Array:
    return draws.normal(shape)


def _cases(plan: Plan) -> Iterator[Case]:
    for n_k in N_K:
        if plan.operation == "attention":
            axes = Axes(2, n_k)
            recipe = partial(_qkv, axes)
            yield plan.attention(NAME, "share", axes, recipe, extensive=n_k in EXTENSIVE)
        else:
            shape = (2, n_k)
            yield plan.rows(NAME, "normal", shape, partial(_x, shape), extensive=n_k in EXTENSIVE)


FAMILY = Family(
    name=NAME,
    hypothesis="Keys after the last whole long block are dropped, or the last block is moved back "
    "inside and its first keys count twice.",
    effect="Contexts that are longer than a block, and no multiple of it, weigh some tokens double "
    "or not at all.",
    source="flash-attention-jax 0.3.1 takes chunks of 1024 keys by lax.dynamic_slice, which moves "
    "a slice that reaches past the end back inside.",
    cases=_cases,
)
