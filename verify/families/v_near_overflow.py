"""V close to the largest finite number, with nearly equal probabilities.

The output is representable, but an accumulator of unnormalised P V is n times larger; with V at
Omega / n not even that may overflow.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Arrays, Axes, Case, Plan
from verify.families import _shapes
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws

NAME = "v_near_overflow"


def _qkv(fmt: Format, axes: Axes, divide: int, one_sign: bool, draws: Draws) -> Arrays:
    size = fmt.largest / divide * (0.5 + 0.5 * draws.uniform(axes.v))
    sign = 1.0 if one_sign else draws.signs(axes.v)
    return {"q": draws.normal(axes.q), "k": 0.125 * draws.normal(axes.k), "v": sign * size}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention":
        return
    for axes in (_shapes.SQUARE, Axes(3, 259)):
        for divide, name in ((1, "omega"), (1024, "omega-over-1024")):
            for one_sign in (False, True):
                yield plan.attention(
                    NAME,
                    name + "-one-sign" * one_sign,
                    axes,
                    partial(_qkv, plan.format, axes, divide, one_sign),
                    extensive=axes.n_k == 259 and not (divide == 1024 and one_sign),
                )


FAMILY = Family(
    name=NAME,
    hypothesis="P V is accumulated unnormalised in the input format and overflows.",
    effect=("Large activations give infinity although the weighted mean is an ordinary number."),
    source=(
        "pytorch/pytorch pull request 165961 (intermediates cast back to fp16 overflow); "
        "Dao-AILab/flash-attention issue 1624 (large inputs)."
    ),
    cases=_cases,
)
