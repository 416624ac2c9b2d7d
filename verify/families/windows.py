"""Sliding windows of 0, 1, 2, 3 and n - 1, n, n + 1 keys to either side, and longer than a tile.

An edge that is off by one changes half of a row when the window holds two keys, and nothing that a
tolerance would see when it holds thousands.  Behind long windows each value column belongs to every
64th key, so that one key more or fewer is a good part of a column.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Case, Plan
from verify.families._values import identity, normal_qkv
from verify.family import Family
from verify.integers import Draws
from verify.operation import Operation

NAME = "windows"
SHAPES = (Axes(48, 48), Axes(7, 37), Axes(5, 130, d=16))
OTHERS = [(2, 3), (17, 5)]
FAR = Axes(8, 700)
LONG = {(127, 0): False, (128, 63): False, (200, -1): True, (520, 0): True}  # extensive?


def _windows(n: int) -> list[tuple[int, int]]:
    small = [(0, 0), (1, 0), (2, 0), (3, 0), (1, 1), (2, 3), (0, 2)]
    return [*small, (-1, 0), (0, -1), (-1, -1), (n - 2, 0), (n - 1, 0), (n, 0), (n + 1, n + 1)]


def _qkv(axes: Axes, draws: Draws) -> Arrays:
    """The longest shape has scores near -200: keys left of the window must not join the maximum."""
    inputs = {name: np.array(array) for name, array in normal_qkv(axes, draws).items()}
    if axes.n_k == 130:
        inputs["q"][..., 0], inputs["k"][..., 0] = 16.0, -50.0
    return inputs


def _far(draws: Draws) -> Arrays:
    return {"q": draws.normal(FAR.q), "k": draws.normal(FAR.k), "v": identity(FAR)}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention":
        return
    for axes in SHAPES:
        chosen = _windows(axes.n_k) if axes.n_k == 37 else OTHERS[: 1 if axes.n_k == 130 else 2]
        for window in chosen:
            for causal in (False, True) if window == (2, 3) and axes.n_k == 37 else (False,):
                yield plan.attention(
                    NAME,
                    _label(window) + "-causal" * causal,
                    axes,
                    partial(_qkv, axes),
                    operation=Operation("attention", causal=causal, window=window),
                    smoke=axes.n_k == 37 and window == (1, 0) and not causal,
                )
    for window, extensive in LONG.items():
        operation = Operation("attention", window=window)
        yield plan.attention(
            NAME, _label(window), FAR, _far, operation=operation, extensive=extensive
        )


def _label(window: tuple[int, int]) -> str:
    return "-".join(str(w) if w >= 0 else "all" for w in window)


FAMILY = Family(
    name=NAME,
    hypothesis="A window edge is off by one, lies on the wrong diagonal, or is read past the end.",
    effect="Local attention includes a wrong key in every row.",
    source=(
        "huggingface/transformers issue 39408 (off by one); Dao-AILab/flash-attention issue 2199 "
        "(window and zero output); NVIDIA/TransformerEngine issue 1197."
    ),
    cases=_cases,
)
