"""mlx.core.fast.scaled_dot_product_attention on the CPU.

On the CPU mlx 0.32.4 runs the composition that mlx/fast.cpp calls the fallback (seen from a row
whose keys are all masked: it gives the mean of V, as the fallback's finite mask value does):

scale   rounded to the input format; q times it is rounded to the input format again.
QK^T    accumulated in binary32 (cblas_sgemm, and simd_gemm<T, float> in
        mlx/backend/cpu/gemms/simd_gemm.h for 16-bit inputs), then stored in the input format;
        an additive mask is added in the input format.
mask    a boolean mask and `causal` put the format's lowest finite number in place of the score.
softmax with precise=True: see `mlx_softmax`; P is stored in the input format.
PV      accumulated in binary32, rounded once.

`stored_row_sum` stands for the rounding of the reciprocal by which P is normalised.
The causal corner is documented as the lower right one.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from verify.kernels import kernel
from verify.kernels._installed import needs
from verify.kernels._masks import one_mask
from verify.kernels._mlx import array, tensor
from verify.kernels._precision import DTYPES
from verify.kernels.mlx_softmax import EXP_RELATIVE

SOURCE = "mlx 0.32.4: mlx/fast.cpp, mlx/backend/cpu/gemms/simd_gemm.h, mlx/backend/cpu/softmax.cpp"


def model(name: str) -> dict[str, Any]:
    """Scores and normalised P stored in the input format; q scaled first."""
    return {
        "name": "mlx-sdpa",
        "input": name,
        "output": name,
        "scale_position": "query",
        "scale_format": name,
        "scaled_operands": name,
        "stored_scores": None if name == "fp32" else name,
        "stores": "each",
        "p_format": name,
        "p_normalised": True,
        "stored_row_sum": "fp32",
        "exp_relative": EXP_RELATIVE,
        "flush_exp": True,
        "block": None,
    }


@kernel(
    name="mlx-sdpa",
    operation="attention",
    summary="mlx.core.fast.scaled_dot_product_attention on the CPU",
    devices=("cpu",),
    model={name: model(name) for name in DTYPES},
    empty_row="mean",
    masked_nonfinite="leaks",
    without=("empty", "causal+bias", "mask+bias"),  # no single mask of MLX's says both
    unavailable=needs("mlx", extra="mlx"),
    libraries=("mlx",),
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

    MLX takes one mask: causal alone, or boolean, or additive; a boolean one and causal are joined
    here.  Joined with a bias they would make rows of -inf, whose output is NaN and not the mean.
    """
    import mlx.core as mx

    scale = q.shape[-1] ** -0.5 if scale is None else scale
    joined = one_mask(q, k, causal, mask, bias, "bottom-right")
    chosen = "causal" if joined is None and causal else None if joined is None else array(joined)
    with mx.stream(mx.cpu):
        out = mx.fast.scaled_dot_product_attention(
            array(q), array(k), array(v), scale=scale, mask=chosen
        )
        return tensor(out)
