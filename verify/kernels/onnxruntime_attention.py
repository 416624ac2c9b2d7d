"""onnxruntime's ai.onnx Attention, opsets 23 and 24, on a CPU.

The arithmetic, read in onnxruntime/core/providers/cpu/llm/attention.cc and attention_softmax.h:

fp32    scores are alpha Q K^T + mask in one SGEMM (the mask is added first where there is no
        softcap), softmax and P V in binary32; P is normalised.
fp16    without half-precision matrix units the products are binary32 SGEMMs; the scores are rounded
        to binary16 after the product, the softcap and the mask; softmax in binary32; P is
        normalised and rounded to binary16; the output is rounded once.  This is `eager`.

A removed key has no -inf: boolean and causal masks add the most negative finite number of the
format (mask_filter_value).  ONNX says -inf, so this adapter declares nothing about it.
Without a cache the causal diagonal begins in the top left corner (ONNX Attention, is_causal).
NaN under a mask leaks: its value is multiplied by 0.
"""

from __future__ import annotations

from typing import Any

from verify.kernels import kernel
from verify.kernels._onnx import missing, run

FORMATS = ("fp16", "fp32")
SOURCE = (
    "onnxruntime 1.32 onnxruntime/core/providers/cpu/llm/attention.cc, attention_softmax.h; "
    "onnx.ai/onnx/operators/onnx__Attention.html"
)
MASKED_KEY_WINS = (
    "a removed key gets the lowest finite number, not -inf: it wins where its own score is high "
    "enough and the live ones are low"
)
BINARY32 = {"format": "fp32", "mode": "RN"}


def attention_model(name: str) -> dict[str, Any]:
    """Binary32 between the input and each array that the format `name` holds: scores, P, output."""
    stored = {} if name == "fp32" else {"stored_scores": name, "stores": "each"}
    return {
        "name": "onnxruntime-attention",
        "input": name,
        "output": name,
        "qk": BINARY32,
        "pv": BINARY32,
        # SGEMM multiplies each partial sum of a long row by alpha: 'both' covers that
        "scale_position": "both",
        "scaled_operands": "fp32",
        "p_format": name,
        "p_normalised": True,
        "block": None,
        **stored,
    }


def additive(mask: Any, bias: Any, scores: tuple[int, int]) -> Any:
    """One mask of (…, n_q, n_k) out of a boolean one and a bias: boolean where there is no bias."""
    import numpy as np

    given = mask if bias is None else bias
    if given is None:
        return None
    if mask is not None and bias is not None:
        given = np.where(mask, bias, bias.dtype.type(-np.inf))
    return np.broadcast_to(given, (*given.shape[:-2], *scores))


def attend(
    opset: int,
    q: Any,
    k: Any,
    v: Any,
    scale: float | None,
    causal: bool,
    mask: Any,
    bias: Any,
    softcap: float | None,
) -> Any:
    """q (batch, heads, n_q, d), k (batch, kv_heads, n_k, d), v (batch, kv_heads, n_k, d_v)."""
    attributes: dict[str, Any] = {"is_causal": int(causal), "softcap": softcap or 0.0}
    if scale is not None:
        attributes["scale"] = scale
    inputs = {"q": q, "k": k, "v": v, "mask": additive(mask, bias, (q.shape[2], k.shape[2]))}
    return run("Attention", inputs, attributes, opset=opset)


@kernel(
    name="onnxruntime-attention",
    operation="attention",
    summary="onnxruntime Attention (ai.onnx 24)",
    formats=FORMATS,
    devices=("cpu",),
    tensors="numpy",
    model={name: attention_model(name) for name in FORMATS},
    corner="top-left",
    masked_nonfinite="leaks",
    without=("empty",),
    libraries=("onnxruntime", "onnx"),
    refuted=dict.fromkeys(FORMATS, MASKED_KEY_WINS),
    unavailable=missing,
    source=SOURCE,
)
def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    scale: float | None = None,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    softcap: float | None = None,
) -> Any:
    """The operator of opset 24."""
    return attend(24, q, k, v, scale, causal, mask, bias, softcap)


@kernel(
    name="onnxruntime-attention-23",
    operation="attention",
    summary="onnxruntime Attention (ai.onnx 23)",
    formats=FORMATS,
    devices=("cpu",),
    tensors="numpy",
    model={name: attention_model(name) for name in FORMATS},
    corner="top-left",
    masked_nonfinite="leaks",
    without=("empty",),
    libraries=("onnxruntime", "onnx"),
    refuted=dict.fromkeys(FORMATS, MASKED_KEY_WINS),
    unavailable=missing,
    source=SOURCE,
)
def attention_23(
    q: Any,
    k: Any,
    v: Any,
    *,
    scale: float | None = None,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    softcap: float | None = None,
) -> Any:
    """The operator of opset 23."""
    return attend(23, q, k, v, scale, causal, mask, bias, softcap)
