"""TVM's relax.op.nn.attention, legalised and compiled for LLVM on a CPU.

Read in apache-tvm 0.27.0, relax/transform/legalize_ops/nn.py `_te_attention`, and in the TIR that
it gives (`LegalizeOps`):

QK^T     products and sums in the format of the inputs, one after another: binary16 has a binary16
         accumulator.  Times the scale, a binary32 constant, which makes the scores binary32.
softmax  binary32: x - m, exp (LLVM's intrinsic: the C library's), sum, one division; the maximum
         starts at the lowest finite number, so that a row that is all -inf is NaN.
PV       binary32.  For binary16 inputs the result is a binary32 tensor, although the operator's
         type says binary16; it is rounded here.
causal   'TopLeft': np.tril(k=0), as documented (its 'BottomRight' is not that corner where there
         are more queries than keys, and not claimed).  Windows are not legalised; no kv heads.

A mask goes in as a bias of 0 and -inf: the operator has no other.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from verify.kernels import kernel
from verify.kernels._masks import joined, numbers
from verify.kernels._tvm import missing, run

FORMATS = ("fp16", "fp32")
ZEROS = "causal: the maximum of a row counts removed keys as 0, so that low scores give 0 / 0"
SOURCE = (
    "apache-tvm 0.27.0.post1: relax/op/nn/nn.py attention (documentation), "
    "relax/transform/legalize_ops/nn.py _te_attention, topi/nn/softmax.h"
)


def model(name: str) -> dict[str, Any]:
    """Scores accumulated in the input format, the rest in binary32."""
    return {
        "name": "tvm-attention",
        "input": name,
        "output": name,
        "qk": {"format": name, "mode": "RN"},
        "p_format": "fp32",
        "p_normalised": True,
        "block": None,
    }


@kernel(
    name="tvm-attention",
    operation="attention",
    summary="TVM relax.op.nn.attention, LLVM on the CPU",
    formats=FORMATS,
    devices=("cpu",),
    model={name: model(name) for name in FORMATS},
    corner="top-left",
    empty_row="nan",
    masked_nonfinite="leaks",
    without=("gqa", "empty"),
    unavailable=missing,
    libraries=("apache-tvm",),
    refuted={
        "fp16": f"{ZEROS}; a removed key whose score overflows gives NaN: +inf + -inf",
        "fp32": ZEROS,
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
    """q, k (batch, heads, n, d), v (batch, heads, n_k, d_v); TVM takes (batch, n, heads, d)."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    inputs = [x.transpose(1, 2) for x in (q, k, v)]
    added = _added(q, k, mask, bias)
    axes = ["bnhd", "bmhd", "bmhe"]
    if added is not None:
        inputs.append(added)
        axes.append("bhnm")

    def build(variables: list[Any]) -> Any:
        from tvm import relax, tirx

        corner = "TopLeft" if causal else None
        return relax.op.nn.attention(
            *variables, scale=tirx.FloatImm("float32", scale), causal_mask=corner
        )

    key = ("attention", scale, causal, added is not None)
    return run(key, inputs, axes, build).to(q.dtype).transpose(1, 2)


def _added(q: Tensor, k: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """The bias of the operator, of shape (batch, heads, n_q, n_k); None where there is none."""
    if mask is None and bias is None:
        return None
    found = joined(mask, bias)
    assert found is not None
    if found.dtype is torch.bool:
        found = numbers(found, q.dtype)
    return found.expand(*q.shape[:3], k.shape[2])
