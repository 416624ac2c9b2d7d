"""torch's attention over packed sequences: nested jagged tensors on a CPU, varlen_attn on CUDA.

nested    scaled_dot_product_attention of jagged nested tensors.  On a CPU no fused backend takes
          them; the math one does, and for nested tensors it does not convert 16-bit operands to
          binary32 (`query_acc` in attention.cpp): both are scaled by sqrt(scale) and every step is
          stored in the format of the input.  It takes neither a causal option nor sequences without
          a token, nor other strides.
varlen    torch.nn.attention.varlen.varlen_attn, a flash kernel: there is no CPU backend.  Not tried
          on a device by this project yet.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from verify.kernels import kernel
from verify.kernels._eager import eager_model
from verify.kernels._precision import DTYPES
from verify.kernels.torch_sdpa import tensor_core_model


def _jagged(x: Tensor, starts: Tensor) -> Tensor:
    """(total, heads, d) as a nested tensor (sequences, heads, tokens, d)."""
    nested: Tensor = torch.nested.nested_tensor_from_jagged(x, starts.long())
    return nested.transpose(1, 2)


@kernel(
    name="torch-sdpa-nested",
    operation="attention_varlen",
    summary="torch's scaled_dot_product_attention of jagged nested tensors",
    devices=("cpu",),
    without=("gqa", "empty", "strides"),
    model={n: eager_model("torch-sdpa-nested", n, scale_position="both") for n in DTYPES},
    masked_nonfinite="leaks",
    source="pytorch torch/nested/_internal/sdpa.py, ATen/native/transformers/attention.cpp",
)
def nested(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    *,
    scale: float | None = None,
) -> Tensor:
    """q (total_q, heads, d), k and v (total_k, heads, d and d_v)."""
    out: Any = scaled_dot_product_attention(
        _jagged(q, cu_seqlens_q), _jagged(k, cu_seqlens_k), _jagged(v, cu_seqlens_k), scale=scale
    )
    return torch.as_tensor(out.transpose(1, 2).values())


def _no_device() -> str | None:
    return None if torch.cuda.is_available() else "no CUDA device; it has no CPU backend"


@kernel(
    name="torch-varlen",
    operation="attention_varlen",
    summary="torch.nn.attention.varlen.varlen_attn",
    formats=("fp16", "bf16"),
    devices=("cuda",),
    unavailable=_no_device,
    model=tensor_core_model(),
    without=("d_v",),
    d=(8, 256),
    d_multiple=8,
    source="pytorch torch/nn/attention/varlen.py",
)
def varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    return_lse: bool = False,
) -> Any:
    """q (total_q, heads, d), k and v (total_k, kv_heads, d); lse (heads, total_q)."""
    from torch.nn.attention.varlen import AuxRequest, varlen_attn

    left, right = window if window is not None else (-1, -1)
    if causal:
        right = 0 if right < 0 else min(right, 0)
    longest = [int(x.diff().max()) for x in (cu_seqlens_q, cu_seqlens_k)]
    return varlen_attn(
        q, k, v, cu_seqlens_q, cu_seqlens_k, *longest,
        return_aux=AuxRequest(lse=True) if return_lse else None,
        scale=1 / math.sqrt(q.shape[-1]) if scale is None else scale,
        window_size=(left, right), enable_gqa=q.shape[1] != k.shape[1],
    )  # fmt: skip
