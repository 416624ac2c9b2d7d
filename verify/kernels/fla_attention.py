"""flash-linear-attention's parallel_attn (softmax attention in Triton), under the interpreter.

Read in fla-core 0.6.0, fla/ops/attn/parallel.py: causal only, as many queries as keys, optionally a
window of W keys that ends at the query.  Scores are scale (q.k) in binary32, times log2 e
(1.4426950216, good to a quarter of u), each product rounded: 2u for scale and one u for log2 e,
within the 5u that scale_position='both' in binary32 allows.  Weights are exp2(s - m), the row sum
adds unrounded P, P is rounded to the input format, accumulators are binary32, tiles have 16 to 64
keys.  NumPy's exp2 is within 4 ulp in binary32 (numpy/_core/tests/test_umath_accuracy.py).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from verify.kernels import kernel
from verify.kernels._triton import FORMATS, SEMANTICS, interpreted


def model(name: str) -> dict[str, Any]:
    """Flash in binary32 with the logarithm's base folded into the scores."""
    return {
        "name": "fla-parallel-attn",
        "input": name,
        "output": name,
        "scale_position": "both",
        "scaled_operands": "fp32",
        "exponential": "fma",
        "exp_ulps": 4.0,
        "p_format": name,
        "block": 16,
    }


@kernel(
    name="fla-parallel-attn",
    operation="attention",
    summary=f"flash-linear-attention parallel_attn, {SEMANTICS}",
    formats=FORMATS,
    devices=("cpu",),
    model={name: model(name) for name in FORMATS},
    masked_nonfinite="leaks",
    requires=("causal",),
    without=("cross", "empty"),
    d=(1, 256),
    unavailable=interpreted("fla", "einops", extra="triton"),
    libraries=("fla-core", "triton"),
    source=f"fla-core 0.6.0: fla/ops/attn/parallel.py; {SEMANTICS}",
)
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: tuple[int, int] | None = None,
) -> Tensor:
    """q (batch, heads, n, d), k (batch, kv_heads, n, d), v (batch, kv_heads, n, d_v)."""
    from fla.ops.attn import parallel_attn

    if not causal:
        raise ValueError("parallel_attn is causal only")
    size = None if window is None or window[0] < 0 else window[0] + 1
    tensors = (x.transpose(1, 2).contiguous() for x in (q, k, v))
    out: Tensor = parallel_attn(*tensors, scale=scale, window_size=size)
    return out.transpose(1, 2)
