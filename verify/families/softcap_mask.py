"""A softcap together with masks, causal, windows and bias.

The cap comes first: applied to a masked -inf it gives -cap, and masked keys come back to life.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Case, Plan
from verify.families import _shapes
from verify.families._values import normal_qkv
from verify.family import Family
from verify.integers import Draws
from verify.operation import Operation

NAME = "softcap_mask"
OPTIONS = {
    "mask": (Operation("attention", softcap=2.0), ("mask",)),
    "causal": (Operation("attention", softcap=2.0, causal=True), ()),
    "bias": (Operation("attention", softcap=2.0), ("bias",)),
    "window": (Operation("attention", softcap=30.0, causal=True, window=(2, 0)), ()),
}


def _qkv(axes: Axes, extras: tuple[str, ...], draws: Draws) -> Arrays:
    inputs = dict(normal_qkv(axes, draws))
    inputs["q"] = 2 * inputs["q"]
    if "mask" in extras:
        mask = draws.integers(0, 4, axes.scores) == 0
        mask[..., 1] = True
        inputs["mask"] = np.asarray(mask)
    if "bias" in extras:
        inputs["bias"] = 4 * draws.normal(axes.scores)
    return inputs


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention":
        return
    for name, (operation, extras) in OPTIONS.items():
        for axes in (_shapes.SQUARE, Axes(6, 37, d=16, heads=2)):
            yield plan.attention(
                NAME,
                name,
                axes,
                partial(_qkv, axes, extras),
                operation=operation,
                extras=extras,
                smoke=name == "mask" and axes.n_q == 6,
                extensive=name != "mask" and axes.n_q == 64,
            )


FAMILY = Family(
    name=NAME,
    hypothesis="The softcap is applied after the mask or to the bias.",
    effect="Masked keys receive a share of the attention.",
    source=("ONNX Attention operator errata, onnx/onnx pull request 8068 (softcap before mask)."),
    cases=_cases,
)
