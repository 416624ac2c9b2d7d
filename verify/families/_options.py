"""The options of attention, with settings that change every row: what is tried in pairs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

EXTRAS = ("mask", "bias", "sinks")  # tensors of their own
OPTIONS = ("scale", "causal", "window", "softcap", *EXTRAS)


def settings(names: Iterable[str], d: int) -> dict[str, Any]:
    """What `Operation` is told for those of the options that are no tensors; a scale that is no
    kernel's default."""
    every = {"scale": 1.5 * d**-0.5, "causal": True, "window": (5, 2), "softcap": 1.5}
    return {name: every[name] for name in names if name in every}


def extras(names: Iterable[str]) -> tuple[str, ...]:
    """Those of the options that are tensors, in their order."""
    chosen = set(names)
    return tuple(name for name in EXTRAS if name in chosen)
