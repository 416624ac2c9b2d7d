"""NaN, infinities and the largest finite numbers in keys and values that are masked.

A masked score is easily set to -inf, but its value row is still multiplied: 0 times NaN is NaN, and
an exp that never reaches 0 lets 3e38 through.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from verify.case import Arrays, Axes, Case, Plan
from verify.families._values import normal_qkv
from verify.family import Family
from verify.integers import Draws
from verify.operation import Operation

NAME = "canary"
HUGE = "huge"
KINDS: dict[str, tuple[Operation, tuple[str, ...]]] = {
    "mask": (Operation("attention"), ("mask",)),
    "bias": (Operation("attention"), ("bias",)),
    "causal": (Operation("attention", causal=True), ()),
    "window": (Operation("attention", window=(2, 2)), ()),
    "softcap": (Operation("attention", softcap=2.0), ("mask",)),
}


def _hidden(axes: Axes, kind: str) -> NDArray[np.bool_]:
    """Keys that no row sees (mask, bias: every third; window: far to the left; causal: none)."""
    keys = np.arange(axes.n_k)
    if kind in ("mask", "bias", "softcap"):
        return np.asarray(keys % 3 == 1)
    if kind == "window":
        return np.asarray(keys < axes.n_k - axes.n_q - 2)
    return np.asarray(keys >= axes.n_k - 3)  # hidden from all but the last three queries


def _qkv(axes: Axes, kind: str, value: float, tensors: str, draws: Draws) -> Arrays:
    inputs = {name: np.array(array) for name, array in normal_qkv(axes, draws).items()}
    hidden = _hidden(axes, kind)
    for name in tensors:
        inputs[name][..., hidden, :] = value
    if kind in ("mask", "softcap"):
        inputs["mask"] = np.broadcast_to(~hidden, axes.scores)
    if kind == "bias":
        inputs["bias"] = np.broadcast_to(np.where(hidden, -np.inf, 0.0), axes.scores)
    return inputs


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention" or plan.format.specials != "ieee":
        return
    square, odd, cross = Axes(32, 48), Axes(7, 37, d=16, heads=2), Axes(5, 40)
    for kind, (operation, extras) in KINDS.items():
        for axes in (square, odd) if kind == "mask" else (cross,):
            for name, value in (("nan", np.nan), ("inf", np.inf), (HUGE, plan.format.largest)):
                for tensors in ("kv", "v") if kind == "mask" and axes is odd else ("kv",):
                    if name == "inf" and (tensors, axes) != ("kv", odd):
                        continue
                    if name == HUGE and (kind in ("causal", "window", "softcap") or tensors == "v"):
                        continue
                    yield plan.attention(
                        NAME,
                        f"{kind}-{name}-{tensors}",
                        axes,
                        partial(_qkv, axes, kind, value, tensors),
                        operation=operation,
                        extras=extras,
                        nonfinite=name != HUGE,
                        smoke=(kind, name, tensors) == ("mask", "nan", "kv") and axes is odd,
                    )


FAMILY = Family(
    name=NAME,
    hypothesis=(
        "Masked keys or values are multiplied by 0 instead of left out, or read past the end."
    ),
    effect="Uninitialised cache slots turn results into NaN, at random.",
    source=(
        "pytorch/pytorch issue 101967 (NaN in masked positions); flashinfer- "
        "ai/flashinfer issue 358; facebookresearch/xformers test_nans_in_padding."
    ),
    cases=_cases,
)
