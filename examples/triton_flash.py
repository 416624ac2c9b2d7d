"""Flash attention in Triton: the file that a kernel author starts from.

    attncert certify examples/triton_flash.py:attention --dtype fp16,fp32

On a machine without a CUDA device it runs under Triton's interpreter, whose arithmetic is NumPy's:
what is certified then is the algorithm as the interpreter executes it, not what a GPU would
compute.  The interpreter of Triton 3.9.0 keeps bf16 values as raw 16-bit integers, so that bf16
means nothing there.
"""

from __future__ import annotations

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is imported

import triton
import triton.language as tl

from verify import declare

QUERIES, KEYS = 32, 32  # of one tile


@triton.jit
def _forward(
    q, k, v, out, lse, scale, heads, group, n_q, n_k, d, d_v,
    CAUSAL: tl.constexpr, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
):  # fmt: skip
    """One tile of queries of one head; tensors are contiguous, (batch, heads, n, d)."""
    slab = tl.program_id(1)
    kv_slab = slab // heads * (heads // group) + slab % heads // group
    rows = tl.program_id(0) * M + tl.arange(0, M)
    cols, cols_v = tl.arange(0, D), tl.arange(0, DV)
    here = (rows < n_q)[:, None]
    at_q = slab * n_q * d + rows[:, None] * d + cols[None, :]
    x = tl.load(q + at_q, mask=here & (cols < d)[None, :], other=0.0)
    m = tl.full([M], float("-inf"), tl.float32)
    total = tl.zeros([M], tl.float32)
    acc = tl.zeros([M, DV], tl.float32)
    for start in range(0, n_k, N):
        keys = start + tl.arange(0, N)
        seen = (keys < n_k)[:, None]
        at_k = kv_slab * n_k * d + keys[:, None] * d + cols[None, :]
        at_v = kv_slab * n_k * d_v + keys[:, None] * d_v + cols_v[None, :]
        y = tl.load(k + at_k, mask=seen & (cols < d)[None, :], other=0.0)
        z = tl.load(v + at_v, mask=seen & (cols_v < d_v)[None, :], other=0.0)
        s = tl.dot(x, tl.trans(y), input_precision="ieee") * scale
        live = (keys < n_k)[None, :] & here
        if CAUSAL:
            live = live & (keys[None, :] <= rows[:, None] + n_k - n_q)
        s = tl.where(live, s, float("-inf"))
        new = tl.maximum(m, tl.max(s, 1))
        # rows that have met no key yet: -inf - -inf would be NaN
        base = tl.where(new == float("-inf"), 0.0, new)
        p = tl.exp(s - base[:, None])
        kept = tl.exp(m - base)
        total = total * kept + tl.sum(p, 1)
        acc = acc * kept[:, None] + tl.dot(p.to(z.dtype), z, input_precision="ieee")
        m = new
    # a row without keys, and no other: `total > 0` would make the NaN of a live key 0 as well
    empty = total == 0
    o = tl.where(empty[:, None], 0.0, acc / tl.where(empty, 1.0, total)[:, None])
    at_o = slab * n_q * d_v + rows[:, None] * d_v + cols_v[None, :]
    tl.store(out + at_o, o.to(out.dtype.element_ty), mask=here & (cols_v < d_v)[None, :])
    found = m + tl.log(tl.where(empty, 1.0, total))
    tl.store(lse + slab * n_q + rows, found, mask=rows < n_q)


# exp and log of NumPy in binary32: 2.52 and 3.83 ulp (numpy loops_exponent_log.dispatch.c.src).
# Left out: `p_format`, the input's, and the accumulators, binary32, are the defaults.
@declare(
    model={"name": "triton-flash", "block": KEYS, "exp_ulps": 4.0, "log_ulps": 4.0},
    masked_nonfinite="leaks",
    without=("empty",),
    source="examples/triton_flash.py; interpreter semantics where there is no CUDA device",
)
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float,
    causal: bool = False,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """q (batch, heads, n_q, d), k (batch, kv_heads, n_k, d), v (batch, kv_heads, n_k, d_v)."""
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    batch, heads, n_q, d = q.shape
    n_k, d_v = v.shape[2:]
    out = torch.empty(batch, heads, n_q, d_v, dtype=q.dtype, device=q.device)
    lse = torch.empty(batch, heads, n_q, dtype=torch.float32, device=q.device)
    size = {"D": max(16, triton.next_power_of_2(d)), "DV": max(16, triton.next_power_of_2(d_v))}
    _forward[triton.cdiv(n_q, QUERIES), batch * heads](
        q, k, v, out, lse, scale, heads, heads // k.shape[1], n_q, n_k, d, d_v,
        CAUSAL=causal, M=QUERIES, N=KEYS, **size,
    )  # fmt: skip
    return (out, lse) if return_lse else out
