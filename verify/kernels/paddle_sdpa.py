"""paddle.nn.functional.scaled_dot_product_attention on the CPU: binary32 only.

Read in paddlepaddle 3.3.1, paddle/nn/functional/flash_attention.py, `_math_attention` (the only
backend on a CPU): q times the scale, QK^T, softmax (see `paddle_softmax`), PV.  A boolean mask
becomes 0 or -inf; a row whose keys are all removed is NaN or the mean of V, by the number of keys:
nothing is declared of it.  `is_causal` has the top-left corner (`triu` with diagonal 1).

The documentation defines softmax(Q K^T / sqrt(d)) V and a mask of "positions that take part in
attention": so a removed key has no weight.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from verify.kernels import kernel
from verify.kernels._masks import one_mask
from verify.kernels._paddle import array, library, missing, tensor
from verify.kernels.paddle_softmax import FORMATS

SOURCE = (
    "paddlepaddle 3.3.1: paddle/nn/functional/flash_attention.py _math_attention and "
    "get_triangle_upper_mask, sdpa.py; paddle/phi/kernels/funcs/softmax_impl.h"
)


def model() -> dict[str, Any]:
    """q scaled first, P normalised, all in binary32."""
    return {
        "name": "paddle-sdpa",
        "input": "fp32",
        "output": "fp32",
        "scale_position": "query",
        "scaled_operands": "fp32",
        "p_format": "fp32",
        "p_normalised": True,
        "stored_row_sum": "fp32",  # stands for the rounding of its inverse
        "flush_exp": True,
        "block": None,
    }


@kernel(
    name="paddle-sdpa",
    operation="attention",
    summary="paddle.nn.functional.scaled_dot_product_attention",
    formats=FORMATS,
    devices=("cpu",),
    model={"fp32": model()},
    corner="top-left",
    empty_row="any",
    masked_nonfinite="leaks",
    without=("empty",),
    unavailable=missing,
    libraries=("paddlepaddle",),
    refuted={
        "fp32": "a removed key keeps the weight exp(-64); `is_causal` adds -1e4 to its score, so "
        "that it wins over keys whose scores are lower still"
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
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """q (batch, heads, n_q, d), k (batch, kv_heads, n_k, d), v (batch, kv_heads, n_k, d_v).

    Paddle takes (batch, n, heads, d), and one mask: causal alone, or boolean, or additive.
    """
    joined = one_mask(q, k, causal, mask, bias)
    out = library().nn.functional.scaled_dot_product_attention(
        *(array(x.transpose(1, 2)) for x in (q, k, v)),
        attn_mask=None if joined is None else array(joined),
        is_causal=causal and joined is None,
        scale=scale,
    )
    return tensor(out).transpose(1, 2)
