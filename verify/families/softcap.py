"""Scores of 0.1, 1, 10 and 128 times the cap: the linear part of tanh, its bend, its saturation,
and where exp(x / cap) overflows or underflows.

Near saturation differences between scores shrink to nothing, and the error of tanh is what
remains.  A tanh formed as (e - 1/e) / (e + 1/e) is inf / inf beyond 88 times the cap.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Arrays, Axes, Case, Plan
from verify.families import _shapes
from verify.families._values import normal_qkv
from verify.family import Family
from verify.integers import Draws
from verify.operation import Operation

NAME = "softcap"
CAPS = (2.0, 30.0, 50.0)
PARTS = {"tenth": 0.125, "one": 1.0, "ten": 8.0}
FAR = 128.0


def _qkv(axes: Axes, factor: float, draws: Draws) -> Arrays:
    inputs = dict(normal_qkv(axes, draws))
    return inputs | {"q": factor * inputs["q"]}


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention":
        return
    for cap in CAPS:
        for name, part in PARTS.items():
            axes = _shapes.SQUARE if cap == 30 and name == "one" else Axes(7, 67)
            yield plan.attention(
                NAME,
                f"cap{cap:.0f}-{name}",
                axes,
                partial(_qkv, axes, cap * part),
                operation=Operation("attention", softcap=cap),
                smoke=cap == 30 and name == "one",
                extensive=cap == 50 and name != "ten",
            )
    axes = Axes(5, 37)
    yield plan.attention(
        NAME,
        f"cap{CAPS[0]:.0f}-far",
        axes,
        partial(_qkv, axes, CAPS[0] * FAR),
        operation=Operation("attention", softcap=CAPS[0]),
    )


FAMILY = Family(
    name=NAME,
    hypothesis=(
        "tanh is approximated coarsely, or overflows on the way; the cap is applied to the "
        "unscaled product, or twice."
    ),
    effect=("Models with capped logits, such as Gemma 2, attend wrongly at their strongest keys."),
    source=(
        "Gemma 2 technical report, arXiv 2408.00118, 2024 (logit soft-capping 50); "
        "OpenXLA accuracy table of tanh."
    ),
    cases=_cases,
)
