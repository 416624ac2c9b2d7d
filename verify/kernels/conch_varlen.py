"""Conch's varlen_attention over a paged cache (Triton), under the interpreter.

Read in conch-triton-kernels 1.3, conch/kernels/attention/varlen_attention.py: one split unless a
single query meets 4096 keys in 64 pages or more; scores are scale (q.k) in binary32 (the soft cap
needs a GPU's library and is not claimed).  "Use dtype of output as the dtype for intermediate
values/calculations (except for those that must be done in FP32)": running maximum, row sum,
rescale factors and output accumulator have the input's format.  In binary32 this is flash
attention.

In binary16 the declared model has binary16 accumulators.  It is refuted: P is formed with the
unrounded maximum, the next page's rescale factor with the rounded one (reports/findings).

`causal` compares the positions of query and key from the start of the sequence (top left), except
for a single query, which sees every key (bottom right): refuted for the lower right corner, which
chunked prefill needs (reports/findings).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from verify.kernels import kernel
from verify.kernels._triton import FORMATS, SEMANTICS, interpreted

PAGE = 32
SOURCE = (
    f"conch-triton-kernels 1.3: conch/kernels/attention/varlen_attention.py; {SEMANTICS}; "
    "numpy/_core/src/umath/loops_exponent_log.dispatch.c.src"
)


def model(name: str) -> dict[str, Any]:
    """Pages of 32 keys; row sum and accumulator in the input's format."""
    low = {"format": name, "mode": "RN"}
    return {
        "name": "conch-varlen",
        "input": name,
        "output": name,
        "p_format": name,
        "pv": low,
        "row_sum": low,
        "row_sum_of": "rounded",
        "block": PAGE,
        "splits": 16,
        "exp_ulps": 2.6,
        "log_ulps": 4.0,
    }


def paged(x: Tensor) -> Tensor:
    """(batch, kv_heads, n, d) as pages (batch * pages, PAGE, kv_heads, d); free slots hold NaN."""
    batch, heads, n, d = x.shape
    pages = -(-n // PAGE)
    room = torch.full((batch, pages * PAGE, heads, d), torch.nan, dtype=x.dtype)
    room[:, :n] = x.transpose(1, 2)
    return room.reshape(batch * pages, PAGE, heads, d)


def attend(q: Tensor, k: Tensor, v: Tensor, scale: float | None, causal: bool) -> Tensor:
    """One sequence for each batch row, its pages in order."""
    from conch.ops.attention.varlen_attention import varlen_attention

    batch, heads, n_q, d = q.shape
    n_k = k.shape[2]
    pages = -(-n_k // PAGE)
    out: Tensor = varlen_attention(
        query=q.transpose(1, 2).reshape(batch * n_q, heads, d).contiguous(),
        key_cache=paged(k),
        value_cache=paged(v),
        cu_seqlens_q=torch.arange(batch + 1, dtype=torch.int32) * n_q,
        max_seqlen_q=n_q,
        seq_lens=torch.full((batch,), n_k, dtype=torch.int32),
        max_seqlen_k=n_k,
        block_table=torch.arange(batch * pages, dtype=torch.int32).reshape(batch, pages),
        causal=causal,
        scale=scale,
    )
    return out.reshape(batch, n_q, heads, d).transpose(1, 2)


@kernel(
    name="conch-varlen",
    operation="attention",
    summary=f"Conch varlen_attention, {SEMANTICS}",
    formats=FORMATS,
    devices=("cpu",),
    model={name: model(name) for name in FORMATS},
    masked_nonfinite="leaks",
    without=("cross", "d_v", "empty"),
    unavailable=interpreted("conch", extra="triton"),
    libraries=("conch-triton-kernels", "triton"),
    refuted={
        "fp16": "P is relative to the unrounded row maximum, the next page's rescale factor to the "
        "rounded one: earlier pages get a weight that is off by up to exp(ulp(m) / 2)"
    },
    source=SOURCE,
)
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
) -> Tensor:
    """As many queries as keys; q (batch, heads, n, d), k, v (batch, kv_heads, n, d)."""
    return attend(q, k, v, scale, causal)


@kernel(
    name="conch-varlen-cross",
    operation="attention",
    summary=f"Conch varlen_attention with n_q != n_k, lower right corner, {SEMANTICS}",
    formats=("fp32",),
    devices=("cpu",),
    model={"fp32": model("fp32")},
    masked_nonfinite="leaks",
    without=("d_v", "empty"),
    unavailable=interpreted("conch", extra="triton"),
    libraries=("conch-triton-kernels", "triton"),
    refuted={
        "fp32": "the causal corner is the upper left one for two and more queries, the lower right "
        "one for a single query"
    },
    source=SOURCE,
)
def cross(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
) -> Tensor:
    """q (batch, heads, n_q, d), k, v (batch, kv_heads, n_k, d)."""
    return attend(q, k, v, scale, causal)
