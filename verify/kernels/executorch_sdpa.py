"""ExecuTorch's llama::custom_sdpa, the C++ kernel of its language models, on a CPU.

Read in extension/llm/custom_ops/op_sdpa_impl.h (executorch 1.5.1), which follows PyTorch's flash
kernel for CPUs: binary32 scores, row sum and accumulators, P rounded to the input format; nothing
narrower is documented, so that the presets `flash` and `single` are declared.  bf16 differs in one
thing: subnormal numbers become zero (vcvtneps2bf16 of AVX512_BF16, with which binary32 is rounded
to bf16, does so: Intel SDM, vol. 2).

It takes (batch, n, heads, d); `start_pos` is the place of the first query among the keys, and only
start_pos + n_q keys are read: so n_q <= n_k, and `causal` has the lower right corner.  Its mask
is one binary32 matrix for all heads; none is claimed.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from verify.kernels import kernel
from verify.kernels._installed import needs

LIBRARY = "extension/llm/custom_ops/libcustom_ops_aot_lib.so"


def flushing() -> dict[str, Any]:
    """The arithmetic of `flash` in bf16, with subnormal numbers read and written as zero."""
    return {
        "name": "flash-flushing",
        "input": "bf16",
        "output": "bf16",
        "p_format": "bf16",
        "scale_position": "both",
        "scaled_operands": "fp32",
        "exponential": "fma",
        "block": 16,
        "splits": 32,
        "flush_to_zero": True,
    }


@cache
def _operator() -> Any:
    """The operator, registered by the library that the wheel carries."""
    found = find_spec("executorch")
    assert found is not None
    folders = [Path(p) for p in found.submodule_search_locations or ()]
    path = next(f / LIBRARY for f in folders if (f / LIBRARY).is_file())
    torch.ops.load_library(path)  # type: ignore[no-untyped-call]
    return torch.ops.llama.custom_sdpa


@kernel(
    name="executorch-custom-sdpa",
    operation="attention",
    summary="ExecuTorch llama::custom_sdpa",
    devices=("cpu",),
    model={"fp16": "flash", "bf16": flushing(), "fp32": "single"},
    empty_row="nan",
    masked_nonfinite="leaks",
    without=("d_v", "empty"),
    unavailable=needs("executorch", extra="executorch"),
    libraries=("executorch",),
    source="executorch 1.5.1: extension/llm/custom_ops/op_sdpa.cpp, op_sdpa_impl.h",
)
def attention(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float | None = None, causal: bool = False
) -> Tensor:
    """q (batch, heads, n_q, d), k, v (batch, kv_heads, n_k, d)."""
    n_q, n_k = q.shape[2], k.shape[2]
    tensors = (x.transpose(1, 2).contiguous() for x in (q, k, v))
    out: Tensor = _operator()(*tensors, n_k - n_q, None, 0.0, causal, scale)
    return out.transpose(1, 2)
