"""ExecuTorch's llama::custom_sdpa, the C++ kernel of its language models, on a CPU.

The arithmetic of executorch 1.5.1, read in extension/llm/custom_ops/op_sdpa_impl.h, which follows
PyTorch's flash kernel for CPUs, and in kernels/optimized/blas/CPUBlas.h, of which the library's
symbols name what the wheel contains (cpu_flash_attention<T, 32 or 64 or 256, 512>):

scores    Q K^T in binary32, times the scale in binary32, before the maximum
softmax   exp(s - m) by expf of the C library (1 ulp: glibc manual, "Known Maximum Errors"); the row
          sum adds P before it is rounded; blocks of 512 keys, no split; times 1 / l at the end
fp16      P is rounded to fp16 (gemm<Half, Half, float>)
bf16      pull requests 21789 and 22255: "for larger blocks, operands are widened once and routed
          through optimized fp32 BLAS ... keeping attention weights in fp32", and a single query
          keeps P in binary32 as well (gemv<BFloat16, float>).  Small blocks take P rounded to bf16:
          2 to 8 queries do so here, 33 queries partly.  So either is declared.
          The dot products use vdpbf16ps of AVX512_BF16 where the processor has it, which reads
          subnormal operands as zero and flushes subnormal sums (Intel SDM, vol. 2)
fp32      sgemm of the linked BLAS

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


def model(name: str, p_format: str) -> dict[str, Any]:
    """Blocks of 512 keys; P in its format."""
    return {
        "name": f"executorch-{p_format}-p",
        "input": name,
        "output": name,
        "p_format": p_format,
        "exp_ulps": 1.0,
        "block": 512,
        "flush_to_zero": name == "bf16",
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
    model={
        "fp16": model("fp16", "fp16"),
        "bf16": [model("bf16", "bf16"), model("bf16", "fp32")],
        "fp32": model("fp32", "fp32"),
    },
    empty_row="nan",
    masked_nonfinite="leaks",
    without=("d_v", "empty"),
    unavailable=needs("executorch", extra="executorch"),
    libraries=("executorch",),
    source=(
        "executorch 1.5.1: extension/llm/custom_ops/op_sdpa.cpp, op_sdpa_impl.h, "
        "kernels/optimized/blas/CPUBlas.h; github.com/pytorch/executorch/pull/20611, 21789, 22255"
    ),
)
def attention(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float | None = None, causal: bool = False
) -> Tensor:
    """q (batch, heads, n_q, d), k, v (batch, kv_heads, n_k, d)."""
    n_q, n_k = q.shape[2], k.shape[2]
    tensors = (x.transpose(1, 2).contiguous() for x in (q, k, v))
    out: Tensor = _operator()(*tensors, n_k - n_q, None, 0.0, causal, scale)
    return out.transpose(1, 2)
