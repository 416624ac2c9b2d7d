"""xformers.ops.memory_efficient_attention, on a GPU.

Documented in xformers/ops/fmha/__init__.py and attn_bias.py: (batch, n, heads, d); an additive mask
of the input's format; LowerTriangularFromBottomRightMask is the lower right corner.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from verify.kernels import kernel
from verify.kernels._cuda import MODEL, on_cuda


@kernel(
    name="xformers",
    operation="attention",
    summary="xformers.ops.memory_efficient_attention",
    devices=("cuda",),
    model={**MODEL, "fp32": "single"},
    masked_nonfinite="leaks",
    without=("gqa", "empty", "causal+bias"),
    d_multiple=8,
    unavailable=on_cuda("xformers", extra="xformers"),
    libraries=("xformers",),
    source="xformers/ops/fmha/__init__.py, xformers/ops/fmha/attn_bias.py",
)
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    bias: Tensor | None = None,
) -> Tensor:
    """q, k (batch, heads, n, d), v (batch, heads, n_k, d_v)."""
    from xformers.ops import memory_efficient_attention
    from xformers.ops.fmha.attn_bias import LowerTriangularFromBottomRightMask

    mask: Any = LowerTriangularFromBottomRightMask() if causal else None
    if bias is not None:
        mask = bias.expand(*q.shape[:3], k.shape[2]).contiguous()
    tensors = (x.transpose(1, 2) for x in (q, k, v))
    out: Tensor = memory_efficient_attention(*tensors, attn_bias=mask, scale=scale)
    return out.transpose(1, 2)
