"""Independent standard normal inputs: scores of order 1, no cancellation beyond chance.

Every stage rounds as it does on average, so this family shows the usual error and little else.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families import _shapes
from verify.family import Family
from verify.integers import Draws

NAME = "standard_normal"
AXES = (
    _shapes.SMALL,
    Axes(16, 16, d=16, batch=2, heads=2),
    _shapes.WIDE,
    _shapes.ODD,
    _shapes.DECODE,
    _shapes.LONG,
)
ROWS = (_shapes.ROWS_ODD, _shapes.ROWS_WIDE, _shapes.ROWS_LONG, (1, 1), (64, 16))


def _qkv(axes: Axes, draws: Draws) -> Arrays:
    return {"q": draws.normal(axes.q), "k": draws.normal(axes.k), "v": draws.normal(axes.v)}


def _x(shape: tuple[int, int], draws: Draws) -> Array:
    return draws.normal(shape)


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention":
        shape = _shapes.ROWS_SQUARE
        yield plan.rows(NAME, "", shape, partial(_x, shape), smoke=True)
        for shape in ROWS:
            yield plan.rows(NAME, "", shape, partial(_x, shape))
        shape = _shapes.ROWS_LONGER
        yield plan.rows(NAME, "", shape, partial(_x, shape), extensive=True)
        return
    yield plan.attention(NAME, "", _shapes.SQUARE, partial(_qkv, _shapes.SQUARE), smoke=True)
    for axes in AXES:
        yield plan.attention(NAME, "", axes, partial(_qkv, axes))
    axes = _shapes.LONGER
    yield plan.attention(NAME, "", axes, partial(_qkv, axes), extensive=True)


FAMILY = Family(
    name=NAME,
    hypothesis="The kernel is wrong on average data: a wrong formula, axis or scale.",
    effect="Every result of the kernel is wrong, not only rare ones.",
    source="The usual test of attention kernels, for example FlashAttention's hopper/"
    "test_flash_attn.py (https://github.com/Dao-AILab/flash-attention).",
    cases=_cases,
)
