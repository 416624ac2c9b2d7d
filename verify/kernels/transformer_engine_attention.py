"""transformer_engine.pytorch.DotProductAttention, on a GPU.

Documented in transformer_engine/pytorch/attention: qkv_format "bshd" is (batch, n, heads, d);
attn_mask_type "causal_bottom_right" is the lower right corner; num_gqa_groups is the number of kv
heads.  The library chooses among cuDNN, flash-attn and its own unfused backend.
"""

from __future__ import annotations

from torch import Tensor

from verify.kernels import kernel
from verify.kernels._cuda import FORMATS, MODEL, on_cuda


@kernel(
    name="transformer-engine",
    operation="attention",
    summary="transformer_engine.pytorch.DotProductAttention",
    formats=FORMATS,
    devices=("cuda",),
    model=MODEL,
    empty_row="any",
    without=("d_v", "empty"),
    d=(8, 256),
    d_multiple=8,
    unavailable=on_cuda("transformer_engine", extra="transformer-engine"),
    libraries=("transformer-engine",),
    source="transformer_engine/pytorch/attention/dot_product_attention",
)
def attention(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float | None = None, causal: bool = False
) -> Tensor:
    """q (batch, heads, n_q, d), k, v (batch, kv_heads, n_k, d)."""
    from transformer_engine.pytorch import DotProductAttention

    layer = DotProductAttention(
        num_attention_heads=q.shape[1],
        kv_channels=q.shape[-1],
        num_gqa_groups=k.shape[1],
        attention_dropout=0.0,
        qkv_format="bshd",
        attn_mask_type="causal_bottom_right" if causal else "no_mask",
        softmax_scale=scale,
    )
    tensors = (x.transpose(1, 2).contiguous() for x in (q, k, v))
    out: Tensor = layer(*tensors)
    return out.reshape(q.shape[0], q.shape[2], q.shape[1], -1).transpose(1, 2)
