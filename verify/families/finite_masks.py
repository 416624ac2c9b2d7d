"""Masks made of large finite numbers, -1e4, -65504 or the format's lowest value, added to scores.

They are ordinary scores: a row whose live scores lie below the mask value belongs to the masked
keys, and a sum that overflows becomes -inf.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families._values import with_ones
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws

NAME = "finite_masks"


def _masks(fmt: Format) -> dict[str, float]:
    return {"1e4": -10_000.0, "lowest": -fmt.largest, "65504": -65504.0}


def _qkv(axes: Axes, value: float, level: float, all_rows: bool, draws: Draws) -> Arrays:
    q, k = draws.normal(axes.q), draws.normal(axes.k)
    q[..., 0], k[..., 0] = 16.0, level / 2
    hidden = draws.integers(0, 2, axes.scores) == 1
    hidden[..., 0] = False
    if all_rows:
        hidden[..., ::2, :] = True
    return {"q": q, "k": k, "v": with_ones(draws, axes), "bias": np.where(hidden, value, 0.0)}


def _x(shape: tuple[int, int], value: float, draws: Draws) -> Array:
    hidden = draws.integers(0, 2, shape) == 1
    hidden[0] = True
    return np.where(hidden, value, draws.normal(shape))


def _cases(plan: Plan) -> Iterator[Case]:
    for name, value in _masks(plan.format).items():
        if value < -plan.format.largest or (name == "65504" and -value == plan.format.largest):
            continue
        if plan.operation != "attention":
            yield plan.rows(NAME, name, (4, 96), partial(_x, (4, 96), value))
            continue
        axes = Axes(16, 48)
        for level, all_rows in ((-40.0, False), (-20_000.0, False), (0.0, True)):
            if name == "lowest" and level == -20_000 and plan.format.emax > 15:
                continue
            yield plan.attention(
                NAME,
                f"{name}-S{level:.0f}",
                axes,
                partial(_qkv, axes, value, level, all_rows),
                extras=("bias",),
                extensive=name == "65504" and level != -20_000,
            )


FAMILY = Family(
    name=NAME,
    hypothesis=(
        "A finite number is taken for -inf, or score plus mask overflows to -inf and "
        "the row to NaN."
    ),
    effect=(
        "Rows that are masked throughout, or whose scores are very negative, come out "
        "as NaN or as padding."
    ),
    source=(
        "pytorch/pytorch issues 110213 and 109517 (masks of finfo.min give NaN); ONNX Attention "
        "operator (a float mask is added); ohdearquant/lattice issue 361 (mask value -1e4)."
    ),
    cases=_cases,
)
