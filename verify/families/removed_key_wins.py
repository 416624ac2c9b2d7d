"""A removed key whose score lies far above those of the live ones.

Masks are often added as the lowest finite number of a format instead of -inf.  Then a removed key
at +S keeps a score of S - largest, and wins where the live keys are at -S with S > largest / 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Case, Plan
from verify.families._values import normal_qkv
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws
from verify.operation import Operation

NAME = "removed_key_wins"
SHARE = 5 / 8  # of the largest number: above a half, and its multiple by log2 e is still finite


def _qkv(axes: Axes, kind: str, fmt: Format, draws: Draws) -> Arrays:
    """Scores of exactly -S and, for removed keys, +S: q picks the first column of k."""
    height = SHARE * fmt.largest
    inputs = {name: np.array(array) for name, array in normal_qkv(axes, draws).items()}
    removed = np.arange(axes.n_k) % 3 == 1
    inputs["q"][...] = 0.0
    inputs["q"][..., 0] = 1.0
    inputs["k"][..., 0] = np.where(removed, height, -height)
    # Equal values of live keys: their weights do not matter, and the bound stays far below 3.
    inputs["v"][...] = np.where(removed, -2.0, 1.0)[:, None]
    if kind == "mask":
        inputs["mask"] = np.broadcast_to(~removed, axes.scores)
    if kind == "bias":
        inputs["bias"] = np.broadcast_to(np.where(removed, -np.inf, 0.0), axes.scores)
    return inputs


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention" or plan.format.specials != "ieee":
        return
    for kind, axes in (
        ("mask", Axes(8, 48, heads=2)),
        ("mask", Axes(5, 37, d=16)),
        ("bias", Axes(8, 48)),
    ):
        yield plan.attention(
            NAME,
            kind,
            axes,
            partial(_qkv, axes, kind, plan.format),
            operation=Operation("attention", scale=1.0),
            extras=(kind,),
        )
    axes = Axes(16, 16, heads=2)
    causal = Operation("attention", scale=1.0, causal=True)
    recipe = partial(_rising, axes, plan.format)
    yield plan.attention(NAME, "causal", axes, recipe, operation=causal)


def _rising(axes: Axes, fmt: Format, draws: Draws) -> Arrays:
    """The first key at -S, the others at +S: removed ones would win in the first row."""
    inputs = dict(_qkv(axes, "causal", fmt, draws))
    height = SHARE * fmt.largest
    first = np.arange(axes.n_k) == 0
    inputs["k"][..., 0] = np.where(first, -height, height)
    inputs["v"][...] = np.where(first, 1.0, -2.0)[:, None]
    return inputs


FAMILY = Family(
    name=NAME,
    hypothesis=(
        "The mask is added as the lowest finite number, so that a removed key with a large score "
        "beats live keys with a low one."
    ),
    effect="Padding that was never cleared takes over a row: attention to text that is not there.",
    source=(
        "Derived from masks of torch.finfo(dtype).min; found in onnxruntime 1.32 and "
        "transformers 5.24 (reports/findings)."
    ),
    cases=_cases,
)
