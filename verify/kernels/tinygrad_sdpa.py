"""tinygrad's Tensor.scaled_dot_product_attention on its CPU device (C compiled by clang).

Read in tinygrad 0.14.0, and in the C that it writes (DEBUG=4):

QK^T    mixin/rand.py, mixin/op.py `dot`: products in the format of the inputs, added in binary32,
        times 1/sqrt(d), then cast to the input format.  The products of binary16 are exact: C
        promotes __fp16 to float (renderer/cstyle.py, ClangRenderer).  Those of bfloat16 are rounded
        to it one by one (`create_non_native_float_pats`), in PV too; `convert` stands for that: the
        two roundings of operands, (1+u)(1+u), allow every error that one rounding of their product
        can make, and `flush_to_zero` more than what a subnormal product loses.
mask    a boolean one becomes 0 or -inf, and is added in binary32; `is_causal` is `tril`, top-left;
        a row whose keys are all removed is NaN.
softmax see `tinygrad_softmax`, in the input format; P is normalised before PV, or PV is divided by
        the row sum, as the optimiser chooses: both are declared.
PV      added in binary32, rounded once.

There is no `scale` argument.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from verify.kernels import kernel
from verify.kernels._masks import one_mask
from verify.kernels._precision import DTYPES
from verify.kernels._tinygrad import array, missing, tensor
from verify.kernels.tinygrad_softmax import exponential

SOURCE = (
    "tinygrad 0.14.0: mixin/rand.py scaled_dot_product_attention, mixin/op.py dot and _softmax, "
    "renderer/cstyle.py ClangRenderer, codegen/decomp/transcendental.py xexp2"
)


def model(name: str) -> list[dict[str, Any]]:
    """Scores, exponentials, row sum and P in the input format; products added in binary32."""
    single = name == "fp32"
    return [
        {
            "name": "tinygrad-sdpa",
            "input": name,
            "output": name,
            "convert": ("bf16", "RN") if name == "bf16" else None,
            "stored_scores": None if single else name,
            "softmax_format": name,
            "stored_row_sum": None if single else name,
            "p_format": name,
            "p_normalised": normalised,
            "flush_to_zero": name == "bf16",
            "block": None,
            **exponential(name),
        }
        for normalised in ((True, False) if single else (True,))
    ]


@kernel(
    name="tinygrad-sdpa",
    operation="attention",
    summary="tinygrad Tensor.scaled_dot_product_attention on the CPU device",
    devices=("cpu",),
    model={name: model(name) for name in DTYPES},
    corner="top-left",
    empty_row="nan",
    masked_nonfinite="leaks",
    without=("empty",),
    unavailable=missing,
    libraries=("tinygrad",),
    source=SOURCE,
)
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """q (batch, heads, n_q, d), k (batch, kv_heads, n_k, d), v (batch, kv_heads, n_k, d_v).

    tinygrad takes one mask: causal alone, or boolean, or additive; several are joined here.
    """
    joined = one_mask(q, k, causal, mask, bias)
    out = array(q).scaled_dot_product_attention(
        array(k),
        array(v),
        attn_mask=None if joined is None else array(joined),
        is_causal=causal and joined is None,
        enable_gqa=q.shape[1] != k.shape[1],
    )
    return tensor(out)
