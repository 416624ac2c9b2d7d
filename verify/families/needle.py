"""One key carries almost all probability and a value that no other key has.

The output is that value if the key was read, at the place where it stands, and far away if not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families._exact_scores import exact_qk
from verify.families._values import with_ones
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws

NAME = "needle"
TOP = 16 * 64  # the needle's score is 16 above the others
SHAPES = (
    Axes(16, 64),
    Axes(3, 129),
    Axes(5, 515),
    Axes(4, 4096),
    Axes(2, 1023, d=16),
    Axes(2, 16384),
)


def _places(n: int) -> dict[str, int]:
    return {"first": 0, "middle": n // 2, "last": n - 1, "eighth": n - n // 8}


def _qkv(fmt: Format, axes: Axes, place: int, level: int, draws: Draws) -> Arrays:
    units = level * 64 - draws.integers(0, 65, (1, axes.n_k))
    units[0, place] = level * 64 + TOP
    v = with_ones(draws, axes)
    v[..., place, 1:] = 8 + 8 * draws.uniform((*axes.v[:2], axes.d_v - 1))
    return {**exact_qk(fmt, axes, units), "v": v}


def _x(shape: tuple[int, int], place: int, draws: Draws) -> Array:
    x = -draws.uniform(shape)
    x[:, place] = TOP / 64
    return x


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for axes in SHAPES:
            for name, place in _places(axes.n_k).items():
                extensive = axes.n_k > 5000 or (name != "last" and axes.n_k != 515)
                smoke = name == "last" and axes.n_k in (129, 515)
                recipe = partial(_qkv, plan.format, axes, place, -20)
                yield plan.attention(NAME, name, axes, recipe, smoke=smoke, extensive=extensive)
        return
    for n in (65, 1023, 4096):
        for name, place in _places(n).items():
            extensive = name != "last" and n != 1023
            smoke = name == "last" and n == 1023
            recipe_x = partial(_x, (2, n), place)
            yield plan.rows(NAME, name, (2, n), recipe_x, smoke=smoke, extensive=extensive)


FAMILY = Family(
    name=NAME,
    hypothesis="Some keys are never read: the last partial block, the tail past a power of two, "
    "or one part of a split.",
    effect="The model cannot find the one token that matters, depending on where it stands.",
    source="vLLM blog, 22 April 2026: needle in a haystack at 128k falls from 91 % to 13 % with "
    "FP8 attention; Xilinx/mlir-air issue 1427 (a correlation test passed).",
    cases=_cases,
)
