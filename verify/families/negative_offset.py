"""All live scores of a row are very negative: -20 to -5e4.

Anything that takes part in the maximum without being a live score (an initial 0 or -1e4, a padding
key, a finite mask value) then wins the row; without a shift the row sum underflows to 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families import _shapes
from verify.families._values import with_ones
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws

NAME = "negative_offset"
# level = 16 k0 / 8
LEVELS = (-20, -89, -104, -200, -11000, -50000)


def _qkv(axes: Axes, level: int, draws: Draws) -> Arrays:
    q, k = draws.normal(axes.q), draws.normal(axes.k) * 0.5
    q[..., 0], k[..., 0] = 16.0, level / 2
    return {"q": q, "k": k, "v": with_ones(draws, axes)}


def _x(fmt: Format, shape: tuple[int, int], level: int, draws: Draws) -> Array:
    spread = max(0.5, float(fmt.ulp(draws.normal((1,)) * 0 + level)[0]))
    return level - 4 * spread * draws.uniform(shape)


def _cases(plan: Plan) -> Iterator[Case]:
    for level in LEVELS:
        name, notes = f"S{level}", {"level": float(level)}
        smoke = level in (-200, -50000)
        if plan.operation == "attention":
            for axes in (_shapes.SQUARE, Axes(5, 129))[: 2 if smoke else 1]:
                yield plan.attention(
                    NAME,
                    name,
                    axes,
                    partial(_qkv, axes, level),
                    smoke=smoke and axes.n_q == 5,
                    notes=notes,
                )
            continue
        shape = (4, 130)
        recipe = partial(_x, plan.format, shape, level)
        yield plan.rows(NAME, name, shape, recipe, smoke=smoke, notes=notes)


FAMILY = Family(
    name=NAME,
    hypothesis="The running maximum starts at 0 or at a finite sentinel, padding is scored 0, or "
    "no maximum is subtracted and the row sum underflows.",
    effect="Rows whose live scores lie below the sentinel come out as zeros, NaN or the mean of "
    "padding.",
    source="flashinfer-ai/flashinfer issues 4267 and 4450, pull request 4401 (sentinel -5e4); "
    "pytorch/pytorch issue 196678 (row LSE below -88).",
    cases=_cases,
)
