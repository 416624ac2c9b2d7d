"""All scores share an offset S of 181 to 10240 beside which they differ by order 1.

The offset cancels in s - m exactly, but whatever was rounded in s itself at that size stays.
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

NAME = "huge_offset"
# S = q0 k0 / 8 with factors that every format holds.
OFFSETS = {181: (32.0, 45.25), 1024: (128.0, 64.0), 10240: (256.0, 320.0)}


def _qkv(axes: Axes, offset: int, draws: Draws) -> Arrays:
    q, k = draws.normal(axes.q), draws.normal(axes.k) * 0.25
    q[..., 0], k[..., 0] = OFFSETS[offset]
    return {"q": q, "k": k, "v": with_ones(draws, axes)}


def _x(fmt: Format, shape: tuple[int, int], offset: int, draws: Draws) -> Array:
    # Entries stay within a few spacings of the format, so that rounding leaves them distinct.
    spread = max(1.0, float(fmt.ulp(draws.normal((1,)) * 0 + offset)[0]))
    return offset + 2 * spread * draws.normal(shape)


def _cases(plan: Plan) -> Iterator[Case]:
    for offset in OFFSETS:
        notes = {"level": float(offset)}
        name = f"S{offset}"
        smoke = offset == 1024
        if plan.operation == "attention":
            for axes in (_shapes.SQUARE, Axes(4, 515))[: 2 if smoke else 1]:
                recipe = partial(_qkv, axes, offset)
                case = plan.attention(NAME, name, axes, recipe, smoke=smoke, notes=notes)
                yield case
                smoke = False
        else:
            for shape in ((8, 128), (3, 515)):
                recipe_x = partial(_x, plan.format, shape, offset)
                yield plan.rows(NAME, name, shape, recipe_x, smoke=smoke, notes=notes)
                smoke = False


FAMILY = Family(
    name=NAME,
    hypothesis="The scores are stored in 16 bits, or the shift is applied to rounded products, so "
    "the error grows with |s| instead of |s - m|.",
    effect="Probabilities of large-norm queries are off by factors such as e^(ulp(S)/2): 28 % at "
    "S = 1000 in fp16, e^2 in bf16.",
    source="Blanchard, Higham, Higham, IMA J. Numer. Anal. 41(4), 2021, section 4 (terms in "
    "x_max); Dao-AILab/flash-attention issue 1624 (large inputs).",
    cases=_cases,
)
