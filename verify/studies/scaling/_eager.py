"""Attention as users write it in PyTorch: two products and a softmax, everything in one format."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from verify.studies.running import Array, array, tensor


def scores(q: Array, k: Array, scale: float, fmt: str) -> Array:
    """Scores as they are stored, (n_q, n_k)."""
    return np.asarray(array(_scores(tensor(q, fmt), tensor(k, fmt), scale))[0, 0])


def gradients(q: Array, k: Array, v: Array, do: Array, scale: float, fmt: str) -> dict[str, Array]:
    """Gradients of scores, q and k by autograd; each tensor is stored in the format."""
    a, b, c = (tensor(x, fmt).requires_grad_() for x in (q, k, v))
    s = _scores(a, b, scale)
    output = torch.softmax(s, dim=-1) @ c
    made = torch.autograd.grad(output, (s, a, b), tensor(do, fmt))
    return dict(zip(("scores", "q", "k"), map(array, made), strict=True))


def _scores(q: Tensor, k: Tensor, scale: float) -> Tensor:
    return (q @ k.transpose(-1, -2)) * scale
