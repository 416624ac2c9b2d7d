"""Between torch tensors and MLX arrays on the CPU, bit for bit (both copy)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_WORDS = {torch.float16: torch.int16, torch.bfloat16: torch.int16, torch.float32: torch.int32}


def array(x: Tensor) -> Any:
    """A tensor as an MLX array of the same format."""
    import mlx.core as mx

    if x.dtype == torch.bool:
        return mx.array(x.numpy())
    words = mx.array(x.contiguous().view(_WORDS[x.dtype]).numpy())
    return words.view(getattr(mx, str(x.dtype).removeprefix("torch.")))


def tensor(x: Any) -> Tensor:
    """An MLX array, evaluated, as a tensor of the same format."""
    import mlx.core as mx
    import numpy as np

    dtype = getattr(torch, str(x.dtype).rpartition(".")[2])
    words = x.view(mx.int16 if dtype.itemsize == 2 else mx.int32)
    return torch.from_numpy(np.array(words)).view(dtype)
