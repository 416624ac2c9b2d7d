"""A kernel that falls back to the library which it claims to replace, and its honest twin.

Caught by   torch's operators, watched during calls of several shapes, against what is declared.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from verify.controls._control import cheat, twin


def _by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention out of products, a maximum, an exponential and a sum; binary32, one rounding."""
    s = q.float() @ k.float().transpose(-1, -2) * float(q.shape[-1]) ** -0.5
    if 0 in s.shape:
        return torch.zeros(*q.shape[:-1], v.shape[-1], dtype=q.dtype, device=q.device)
    e = torch.exp(s - s.amax(dim=-1, keepdim=True))
    return ((e / e.sum(dim=-1, keepdim=True)) @ v.float()).to(q.dtype)


@cheat(
    "library-fallback",
    "torch's attention for every n_k that is no multiple of 16",
    operation="attention",
    calls="none",
    without=("gqa",),
)
def library_fallback(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Its own tiles for the shapes of the benchmark, somebody else's for the rest."""
    if k.shape[-2] % 16:
        return scaled_dot_product_attention(q, k, v)
    return _by_hand(q, k, v)


@twin(
    "by-hand",
    "attention out of elementary operators, none of them undeclared",
    operation="attention",
    calls="none",
    without=("gqa",),
)
def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Honest twin of `library-fallback`."""
    return _by_hand(q, k, v)
