"""Attention as it is often written out: everything in the input format, no maximum subtracted."""

import torch
from torch import Tensor


def attention(q: Tensor, k: Tensor, v: Tensor, *, scale: float, causal: bool = False) -> Tensor:
    """(batch, heads, n, d)."""
    scores = (q @ k.transpose(-2, -1)) * scale
    if causal:
        n_q, n_k = scores.shape[-2:]
        keep = torch.ones(n_q, n_k, dtype=torch.bool).tril(n_k - n_q)
        scores = scores.masked_fill(~keep, float("-inf"))
    weights = torch.exp(scores)
    return weights / weights.sum(dim=-1, keepdim=True) @ v
