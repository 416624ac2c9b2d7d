"""ggml's flash_attn_ext on a CPU, one thread: the attention of llama.cpp.

Read in llama-cpp-python 0.3.36, vendor/llama.cpp/ggml/src/ggml-cpu/ops.cpp.  K and V have the
format of the certificate; ggml takes Q in binary32 (the same numbers) and returns binary32, which
is rounded here.  Scores, softcap, exponentials and row sum are binary32, and P is not rounded.

one key     `..._f16_one_chunk`, for fewer queries than a tile (64) and for bfloat16: the maximum is
at a time   updated after each key.  With binary16 the running output is a binary16 vector, rounded
            after each key and each rescale (ggml_vec_mad_f16, ggml_vec_scale_f16), although the
            operator's dispatch says "uses F32 accumulators"; else it is binary32.
tiles       `..._tiled`: binary32 accumulators; exp is ggml_v_expf (vec.h: below 2 ulp).

bfloat16 products go through vdpbf16ps where the processor has it, which reads and writes subnormal
numbers as zero (Intel SDM, vol. 2).  A mask is binary16, 0 or -inf, and the only way to remove
keys: causal rows are made here, with the lower right corner.  A removed key is skipped, or in a
tile multiplied by a weight of 0, so that NaN may show; a row without keys is 0.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from verify.kernels import kernel
from verify.kernels._ggml import array, computed, context, libraries, missing
from verify.kernels._masks import numbers, seen
from verify.kernels._precision import DTYPES

SOURCE = (
    "llama-cpp-python 0.3.36: vendor/llama.cpp/ggml/include/ggml.h ggml_flash_attn_ext, "
    "ggml/src/ggml-cpu/ops.cpp and vec.h"
)


def model(name: str) -> list[dict[str, Any]]:
    """The loop over single keys, and for binary16 the tiles too."""
    accumulators = ("fp16", "fp32") if name == "fp16" else ("fp32",)
    return [
        {
            "name": "ggml-flash-attn",
            "input": name,
            "output": name,
            "pv": {"format": accumulator, "mode": "RN"},
            "p_format": "fp32",
            "exp_ulps": 2.0,
            "block": 1,
            "flush_to_zero": name == "bf16",
        }
        for accumulator in accumulators
    ]


@kernel(
    name="ggml-flash-attn",
    operation="attention",
    summary="ggml_flash_attn_ext of llama.cpp on the CPU",
    devices=("cpu",),
    model={name: model(name) for name in DTYPES},
    masked_nonfinite="leaks",
    without=("empty",),
    unavailable=missing,
    libraries=("llama-cpp-python",),
    source=SOURCE,
)
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    mask: Tensor | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """q (batch, heads, n_q, d), k (batch, kv_heads, n_k, d), v (batch, kv_heads, n_k, d_v)."""
    base, _ = libraries()
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    removed = _mask(q, k, causal, mask)
    batch, heads, n_q, _ = q.shape
    with context((q, k, v, removed)) as held:
        inputs = [array(held, x) for x in (q.float(), k, v)]
        made = base.ggml_flash_attn_ext(
            held,
            *inputs,
            None if removed is None else array(held, removed),
            scale,
            0.0,
            0.0 if softcap is None else softcap,
        )
        if sinks is not None:
            base.ggml_flash_attn_ext_add_sinks(made, array(held, sinks.float()))
        out = computed(held, made, (batch, n_q, heads, v.shape[-1]))
    return out.to(q.dtype).transpose(1, 2)


def _mask(q: Tensor, k: Tensor, causal: bool, mask: Tensor | None) -> Tensor | None:
    """0 and -inf in binary16, (batch, heads, n_q, n_k); None where every key is seen."""
    found = seen(q, k, mask, "bottom-right") if causal else mask
    if found is None:
        return None
    return numbers(found, torch.float16).expand(*q.shape[:3], k.shape[2])
