"""V shifted by a constant that is large beside its spread.

The exact output shifts by the same constant; what the probabilities fail to sum to is multiplied by
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Arrays, Axes, Case, Plan
from verify.families import _shapes
from verify.family import Family
from verify.integers import Draws

NAME = "shifted_v"
SHIFTS = (16.0, 1024.0)


def _qkv(axes: Axes, shift: float, draws: Draws) -> Arrays:
    return {
        "q": draws.normal(axes.q),
        "k": draws.normal(axes.k),
        "v": shift + 4 * draws.normal(axes.v),
    }


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation == "attention":
        for shift in SHIFTS:
            axes = _shapes.SQUARE if shift == 16 else Axes(5, 131, d=16)
            yield plan.attention(NAME, f"{shift:.0f}", axes, partial(_qkv, axes, shift))


FAMILY = Family(
    name=NAME,
    hypothesis="Probabilities sum to something other than 1, or P is rounded too coarsely.",
    effect="Layers after a normalisation with a large mean receive scaled activations.",
    source=(
        "Chen, Cheung, Yiu: Metamorphic testing, HKUST-CS98-01, 1998; Dao-AILab/flash-attention "
        "pull request 2713 (numerator and denominator disagree)."
    ),
    cases=_cases,
)
