"""flashinfer.single_prefill_with_kv_cache, one call for each batch row, on a GPU.

Documented in flashinfer/prefill.py: (n, heads, d); causal aligns to the lower right corner;
window_left counts the keys before the query; logits_soft_cap is applied before the mask; the
log-sum-exp is in base 2, (n_q, heads).
"""

from __future__ import annotations

import torch
from torch import Tensor

from verify.kernels import kernel
from verify.kernels._cuda import FORMATS, MODEL, on_cuda


@kernel(
    name="flashinfer-prefill",
    operation="attention",
    summary="flashinfer.single_prefill_with_kv_cache",
    formats=FORMATS,
    devices=("cuda",),
    model=MODEL,
    lse_base="2",
    without=("d_v", "empty"),
    d=(64, 256),
    d_multiple=64,
    unavailable=on_cuda("flashinfer", extra="flashinfer"),
    libraries=("flashinfer-python",),
    source="flashinfer/prefill.py",
)
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    softcap: float | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """q (batch, heads, n_q, d), k, v (batch, kv_heads, n_k, d)."""
    from flashinfer import single_prefill_with_kv_cache

    found = [
        single_prefill_with_kv_cache(
            *(x.transpose(0, 1).contiguous() for x in row),
            causal=causal,
            sm_scale=scale,
            logits_soft_cap=softcap or 0.0,
            return_lse=True,
        )
        for row in zip(q, k, v, strict=True)
    ]
    out = torch.stack([o.transpose(0, 1) for o, _ in found])
    return (out, torch.stack([lse.transpose(0, 1) for _, lse in found])) if return_lse else out
