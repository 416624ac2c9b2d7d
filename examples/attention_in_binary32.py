"""Attention written out, in binary32 with the row maximum subtracted, and what it declares."""

import torch
from torch import Tensor

from verify import declare


@declare(without=("gqa", "empty"), empty_row="nan", masked_nonfinite="leaks")
def attention(q: Tensor, k: Tensor, v: Tensor, *, scale: float, causal: bool = False) -> Tensor:
    """(batch, heads, n, d): rounded to the input format once, at the end."""
    dtype = q.dtype
    q, k, v = q.float(), k.float(), v.float()
    scores = (q @ k.transpose(-2, -1)) * scale
    if causal:
        n_q, n_k = scores.shape[-2:]
        keep = torch.ones(n_q, n_k, dtype=torch.bool).tril(n_k - n_q)
        scores = scores.masked_fill(~keep, float("-inf"))
    weights = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    return (weights / weights.sum(dim=-1, keepdim=True) @ v).to(dtype)
