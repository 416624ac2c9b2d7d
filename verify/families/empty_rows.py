"""Rows that see no key: at the start, in the middle, at the end of a tile, and all of them.

Their maximum is -inf and their row sum 0, so unguarded code computes -inf + inf and 0 / 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Case, Plan
from verify.families._values import with_ones
from verify.family import Family
from verify.integers import Draws

NAME = "empty_rows"
SHAPES = (Axes(16, 64), Axes(19, 70, heads=2))


def _empty(where: str, n_q: int) -> slice | list[int]:
    return {
        "start": slice(0, 3),
        "middle": slice(n_q // 2 - 1, n_q // 2 + 2),
        "end": slice(n_q - 3, n_q),
        "alternate": slice(0, n_q, 2),
        "all": slice(0, n_q),
    }[where]


def _qkv(axes: Axes, where: str, level: float, draws: Draws) -> Arrays:
    q, k = draws.normal(axes.q), draws.normal(axes.k)
    q[..., 0], k[..., 0] = 16.0, level / 2
    mask = draws.integers(0, 2, axes.scores) == 1
    mask[..., 5] = True
    mask[..., _empty(where, axes.n_q), :] = False
    return {"q": q, "k": k, "v": 4 + with_ones(draws, axes), "mask": np.asarray(mask)}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention":
        return
    for axes in SHAPES:
        for where in ("start", "middle", "end", "alternate", "all"):
            level = 0.0 if axes.heads == 1 else -200.0
            yield plan.attention(
                NAME,
                where,
                axes,
                partial(_qkv, axes, where, level),
                extras=("mask",),
                smoke=where == "middle" and axes.heads > 1,
                extensive=axes.heads > 1 and where in ("start", "end", "alternate"),
            )


FAMILY = Family(
    name=NAME,
    hypothesis="A row without keys gives NaN or the mean of V, or disturbs the rows beside it.",
    effect="One padded sequence turns a whole batch into NaN, or leaks padding into results.",
    source="pytorch/pytorch pull requests 131060 and 131863 (safe softmax), issue 103963; ONNX "
    "Attention errata, onnx/onnx pull request 8068 (fully masked rows give 0).",
    cases=_cases,
)
