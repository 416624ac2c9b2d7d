"""Attention written out in torch and compiled by torch.compile, as many models have it.

    softmax(mask(softcap(q k^T scale) + bias)) v

On a CPU, Inductor (torch 2.13) calls a library for the two products, which round to the input
format, and makes one loop of what lies between, in binary32: the scores are stored in the input
format once, P after it is normalised.  Its loop does not round the steps between, but it may (with
torch._inductor.config.emulate_precision_casts), and the model allows for both.  A row without keys
gives NaN.  Shapes are dynamic, so that few programs serve all; hitting the limit of recompiles is
an error instead of a silent return to eager.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from verify.kernels import kernel
from verify.kernels._masks import seen
from verify.kernels._precision import DTYPES
from verify.kernels.torch_flex_attention import uncompiled
from verify.kernels.torch_sdpa import BINARY32

SOURCE = "torch 2.13 torch/_inductor/codegen/cpp.py; docs: torch.compiler"


def compiled_model(name: str) -> dict[str, Any]:
    """Scores and P stored in the input format, binary32 between."""
    return {
        "name": "torch-compiled-attention",
        "input": name,
        "output": name,
        "qk": BINARY32,
        "pv": BINARY32,
        "stored_scores": name,
        "stores": "each",
        "p_format": name,
        "p_normalised": True,
        "block": None,
        "flush_to_zero": name == "bf16",  # oneDNN's matrix products
    }


def written_out(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    visible: Tensor | None,
    bias: Tensor | None,
    softcap: float | None,
) -> Tensor:
    """q (batch, heads, n_q, d), k (batch, heads, n_k, d), v (batch, heads, n_k, d_v)."""
    s = torch.matmul(q, k.transpose(-2, -1)) * scale
    if softcap is not None:
        s = softcap * torch.tanh(s / softcap)
    if bias is not None:
        s = s + bias
    if visible is not None:
        s = torch.where(visible, s, float("-inf"))
    return torch.matmul(torch.softmax(s, dim=-1), v)


@lru_cache(maxsize=1)
def program() -> Any:
    """The compiled function."""
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    torch._dynamo.config.recompile_limit = 256
    return torch.compile(written_out, dynamic=True)


@kernel(
    name="torch-compiled-attention",
    operation="attention",
    summary="attention written out in torch, under torch.compile",
    devices=("cpu",),
    model={name: compiled_model(name) for name in DTYPES},
    corner="top-left",
    empty_row="nan",
    masked_nonfinite="leaks",
    without=("gqa", "empty"),
    libraries=("torch",),
    unavailable=uncompiled,
    source=SOURCE,
)
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    causal: bool = False,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    softcap: float | None = None,
) -> Tensor:
    """q (batch, heads, n_q, d), k (batch, heads, n_k, d), v (batch, heads, n_k, d_v)."""
    visible = seen(q, k, mask, "top-left") if causal else mask
    answer: Tensor = program()(q, k, v, scale, visible, bias, softcap)
    return answer
