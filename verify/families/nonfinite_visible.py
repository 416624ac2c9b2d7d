"""NaN and infinities in a query, a visible key or a visible value.

They must show in the rows and columns that they belong to, and in no other: fmax drops a NaN, and a
guard against -inf can hide one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families._values import normal_qkv
from verify.family import Family
from verify.integers import Draws

NAME = "nonfinite_visible"
VALUES = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}


def _qkv(axes: Axes, place: str, value: float, draws: Draws) -> Arrays:
    inputs = {name: np.array(array) for name, array in normal_qkv(axes, draws).items()}
    inputs[place][..., axes.n_q // 2 if place == "q" else axes.n_k - 2, 1] = value
    return inputs


def _both(axes: Axes, draws: Draws) -> Arrays:
    inputs = {name: np.array(array) for name, array in normal_qkv(axes, draws).items()}
    inputs["v"][..., 0, 1], inputs["v"][..., 1, 1] = np.inf, -np.inf
    return inputs


def _x(value: float, how: str, draws: Draws) -> Array:
    x = draws.normal((4, 48))
    places = {"one": slice(7, 8), "some": slice(0, 48, 5), "all": slice(0, 48)}[how]
    x[1, places] = value
    return x


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.format.specials != "ieee":
        return
    if plan.operation != "attention":
        for name, value in VALUES.items():
            for how in ("one", "some", "all"):
                if how == "one" or name != "nan":
                    recipe_x = partial(_x, value, how)
                    yield plan.rows(NAME, f"{name}-{how}", (4, 48), recipe_x, nonfinite=True)
        return
    axes = Axes(16, 32)
    for place in ("q", "k", "v"):
        for name, value in VALUES.items():
            if (place, name) == ("q", "-inf"):
                continue
            recipe = partial(_qkv, axes, place, value)
            smoke = (place, name) == ("k", "nan")
            case = f"{place}-{name}"
            yield plan.attention(NAME, case, axes, recipe, nonfinite=True, smoke=smoke)
    yield plan.attention(NAME, "v-both", axes, partial(_both, axes), nonfinite=True)


FAMILY = Family(
    name=NAME,
    hypothesis="A NaN is dropped by max, replaced by 0, or spreads to rows that never read it.",
    effect="Broken activations pass unnoticed, or one broken token destroys a batch.",
    source=(
        "IEEE 754-2019, section 9.6 (maximum and maximumNumber); google/jax "
        "documentation of jax.nn.softmax (+inf gives NaN)."
    ),
    cases=_cases,
)
