"""torch tensors as NumPy arrays and back, bfloat16 included, for libraries that speak NumPy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def array(x: Tensor) -> Any:
    """The same numbers as a NumPy array; bfloat16 becomes that of ml_dtypes."""
    plain = x.detach().cpu()
    if plain.dtype != torch.bfloat16:
        return plain.numpy()
    import ml_dtypes

    return plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16)


def tensor(a: Any) -> Tensor:
    """The same numbers as a torch tensor with storage of its own."""
    import numpy as np

    own = np.array(a, order="C", copy=True)
    if own.dtype.name != "bfloat16":
        return torch.from_numpy(own)
    return torch.from_numpy(own.view(np.int16)).view(torch.bfloat16)
