"""Textbook attention over packed sequences and over a cache in pages: a loop around the plain one.

The layouts are those of `verify.packing`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from verify.declaration import declare
from verify.kernels import kernel
from verify.kernels._attention import Attention, Kernel, Shifted
from verify.kernels._attention_tiled import Online


def varlen(algorithm: Attention) -> Kernel:
    """The algorithm on each sequence by itself."""
    plain = algorithm.kernel()

    def attention_varlen(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cu_seqlens_q: Tensor,
        cu_seqlens_k: Tensor,
        *,
        scale: float | None = None,
        causal: bool = False,
        window: tuple[int, int] | None = None,
        softcap: float | None = None,
        return_lse: bool = False,
    ) -> Any:
        """q (total_q, heads, d), k and v (total_k, kv_heads, d and d_v)."""
        out = q.new_empty(*q.shape[:2], v.shape[-1])
        lse = torch.empty(q.shape[1], len(q), device=q.device)
        options = {"scale": scale, "causal": causal, "window": window, "softcap": softcap}
        spans = zip(pairwise(cu_seqlens_q.tolist()), pairwise(cu_seqlens_k.tolist()), strict=True)
        for (q0, q1), (k0, k1) in spans:
            parts = (x.transpose(0, 1)[None] for x in (q[q0:q1], k[k0:k1], v[k0:k1]))
            o, sums = plain(*parts, return_lse=True, **options)
            out[q0:q1], lse[:, q0:q1] = o[0].transpose(0, 1), sums[0]
        return (out, lse) if return_lse else out

    return declare(
        operation="attention_varlen",
        model=algorithm.models(),
        deterministic=True,
        rounding="nearest",
    )(attention_varlen)


def paged(algorithm: Attention) -> Kernel:
    """The algorithm on each sequence, with the keys of its pages up to its length."""
    plain = algorithm.kernel()

    def attention_paged(
        q: Tensor,
        k_cache: Tensor,
        v_cache: Tensor,
        block_table: Tensor,
        cache_seqlens: Tensor,
        *,
        scale: float | None = None,
        causal: bool = False,
        window: tuple[int, int] | None = None,
        softcap: float | None = None,
        return_lse: bool = False,
    ) -> Any:
        """q (batch, n_q, heads, d), k_cache and v_cache (pages, page_size, kv_heads, d and d_v)."""
        out = q.new_empty(*q.shape[:3], v_cache.shape[-1])
        lse = torch.empty(q.shape[0], q.shape[2], q.shape[1], device=q.device)
        options = {"scale": scale, "causal": causal, "window": window, "softcap": softcap}
        for b, length in enumerate(cache_seqlens.tolist()):
            pages = block_table[b, : -(-length // k_cache.shape[1])].long()
            k, v = (x[pages].flatten(0, 1)[:length] for x in (k_cache, v_cache))
            parts = (x.transpose(0, 1)[None] for x in (q[b], k, v))
            o, sums = plain(*parts, return_lse=True, **options)
            out[b], lse[b] = o[0].transpose(0, 1), sums[0]
        return (out, lse) if return_lse else out

    return declare(
        operation="attention_paged",
        model=algorithm.models(),
        deterministic=True,
        rounding="nearest",
    )(attention_paged)


@kernel(
    name="textbook-attention-varlen",
    operation="attention_varlen",
    summary="packed sequences, all scores of one at once",
    factory=True,
)
def varlen_shifted() -> Kernel:
    """O = (exp(s - m) V) / l of each sequence."""
    return varlen(Shifted())


@kernel(
    name="textbook-attention-paged",
    operation="attention_paged",
    summary="flash attention over a cache in pages, a tile a page",
    factory=True,
)
def paged_online(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return paged(Online(block=block))
