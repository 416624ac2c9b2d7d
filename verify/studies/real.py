"""Q, K and V of a trained model: the extract that this project ships (all-MiniLM-L6-v2)."""

from __future__ import annotations

from importlib import resources

import numpy as np

from verify.studies.running import Array

LAYERS, HEADS, TOKENS, D = 6, 4, 32, 32


def layer(number: int) -> tuple[Array, Array, Array]:
    """q, k, v of one layer on the first sentence, (1, heads, tokens, d), binary32 values."""
    from safetensors.numpy import load

    file = resources.files("verify.families").joinpath("real_extract.safetensors")
    found = load(file.read_bytes())
    q, k, v = (np.asarray(found[f"{number}.{name}"][:1], np.float64) for name in "qkv")
    return q, k, v
