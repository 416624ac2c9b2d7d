"""torch.nn.MultiheadAttention with identity projections: its two ways to compute attention.

Multiplying by the identity is exact for finite numbers, so what is left is the attention inside
(torch/nn/functional.py, multi_head_attention_forward).  NaN times 0 spreads, so `nonfinite` is not
claimed.  The corner of a causal mask is whatever mask is given; these kernels give torch's.

need_weights=True    q is multiplied by 1/sqrt(d) and rounded to the input format; scores,
                     normalised P and output are stored in it.  A row without keys gives NaN.
need_weights=False   scaled_dot_product_attention, as `torch-sdpa`.  (The fast path of
                     TransformerEncoder takes one tensor as q, k and v, and is not this.)
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from verify.kernels import kernel
from verify.kernels._masks import seen, with_four_axes
from verify.kernels._precision import DTYPES
from verify.kernels.torch_sdpa import BINARY32, flash_model

SOURCE = "torch 2.13 torch/nn/functional.py, multi_head_attention_forward"


def weights_model(name: str) -> dict[str, Any]:
    """q scaled first; every array in the input format; products accumulate in binary32."""
    return {
        "name": "torch-multihead-attention-weights",
        "input": name,
        "output": name,
        "qk": BINARY32,
        "pv": BINARY32,
        "scale_position": "query",
        "scaled_operands": name,
        "stored_scores": name,
        "stores": "each",
        "p_format": name,
        "p_normalised": True,
        "block": None,
        "flush_to_zero": name == "bf16",  # oneDNN's matrix products
    }


@lru_cache(maxsize=16)
def module(width: int, heads: int, dtype: torch.dtype, device: str) -> torch.nn.MultiheadAttention:
    """A module whose four projections are the identity."""
    made = torch.nn.MultiheadAttention(
        width, heads, bias=False, batch_first=True, dtype=dtype, device=device
    ).eval()
    identity = torch.eye(width, dtype=dtype, device=device)
    with torch.no_grad():
        assert made.in_proj_weight is not None
        made.in_proj_weight.copy_(torch.cat([identity] * 3))
        made.out_proj.weight.copy_(identity)
    return made


def packed(x: Tensor) -> Tensor:
    """(batch, heads, n, d) as (batch, n, heads d)."""
    return x.transpose(1, 2).flatten(2)


def removing(q: Tensor, k: Tensor, causal: bool, mask: Tensor | None) -> Tensor | None:
    """True where the key is removed, (batch heads, n_q, n_k); None where nothing is."""
    kept = with_four_axes(seen(q, k, mask, "top-left") if causal else mask)
    return None if kept is None else ~kept.expand(*q.shape[:3], k.shape[2]).flatten(0, 1)


def attend(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, mask: Tensor | None, need_weights: bool
) -> Tensor:
    """q (batch, heads, n_q, d), k and v (batch, heads, n_k, d).

    Where a row of one head sees no key, heads are called one by one: the NaN of that head times the
    zeros of the projection would reach the others.
    """
    removed = removing(q, k, causal, mask)
    if need_weights and removed is not None and bool(removed.all(dim=-1).any()):
        single_q, single_k, single_v = (x.flatten(0, 1).unsqueeze(1) for x in (q, k, v))
        return called(single_q, single_k, single_v, removed, True).reshape(*q.shape[:3], -1)
    return called(q, k, v, removed, need_weights)


def called(q: Tensor, k: Tensor, v: Tensor, removed: Tensor | None, need_weights: bool) -> Tensor:
    """The module on all heads at once; removed (batch heads, n_q, n_k)."""
    batch, heads, n_q, d = q.shape
    run = module(heads * d, heads, q.dtype, str(q.device))
    with torch.no_grad():
        out, _ = run(packed(q), packed(k), packed(v), need_weights=need_weights, attn_mask=removed)
    return torch.as_tensor(out).reshape(batch, n_q, heads, d).transpose(1, 2)


@kernel(
    name="torch-multihead-attention-weights",
    operation="attention",
    summary="torch.nn.MultiheadAttention, need_weights=True",
    devices=("cpu",),
    model={name: weights_model(name) for name in DTYPES},
    corner="top-left",
    empty_row="nan",
    masked_nonfinite="leaks",
    without=("d_v", "gqa", "empty", "nonfinite"),
    libraries=("torch",),
    source=SOURCE,
)
def with_weights(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, mask: Tensor | None = None
) -> Tensor:
    """The way that can return its weights."""
    return attend(q, k, v, causal, mask, True)


@kernel(
    name="torch-multihead-attention",
    operation="attention",
    summary="torch.nn.MultiheadAttention, need_weights=False",
    devices=("cpu",),
    model={name: flash_model(name, "both") for name in DTYPES},
    corner="top-left",
    masked_nonfinite="leaks",
    without=("d_v", "gqa", "empty", "nonfinite"),
    libraries=("torch",),
    source=SOURCE,
)
def without_weights(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, mask: Tensor | None = None
) -> Tensor:
    """The way through scaled_dot_product_attention."""
    return attend(q, k, v, causal, mask, False)
