"""onnxruntime's com.microsoft MultiHeadAttention and GroupQueryAttention on a CPU.

Read in onnxruntime/contrib_ops/cpu/bert/multihead_attention.cc, attention_cpu_base.h and
gqa_attention_base.h (docs/ContribOperators.md says what they mean):

MultiHeadAttention    binary32: MlasFlashAttention where there is neither mask nor bias (tiles that
                      fill the L2 cache, P not normalised), else SGEMM, softmax, SGEMM.  The preset
                      `single` covers both.  binary16: scores, P and output are stored in binary16.
                      Causal masks add the most negative finite number; the corner is top-left.
GroupQueryAttention   always causal, and the last query sees the last key (bottom-right).  Scores
                      and P are binary32 for binary16 inputs too.  In binary32 P is not normalised
                      before P V (found out: P V overflows where the normalised sum does not).
                      d must be a multiple of 8, and the batch 1 where there is a past and more than
                      one query: such batches are called one after another.

GroupQueryAttention has no call without a causal mask but that with a single query.  So a call that
is not causal is made as the decoding step that it is to each of its queries: the queries become
heads of the same kv head, all keys but the last the past.
"""

from __future__ import annotations

from typing import Any

from verify.kernels import kernel
from verify.kernels._onnx import missing, run
from verify.kernels.onnxruntime_attention import BINARY32, FORMATS, attention_model

SOURCE = "onnxruntime 1.32 docs/ContribOperators.md, onnxruntime/contrib_ops/cpu/bert"


def grouped_model(name: str) -> dict[str, Any]:
    """Binary32 from the input to the output's one rounding."""
    return {
        "name": "onnxruntime-group-query-attention",
        "input": name,
        "output": name,
        "qk": BINARY32,
        "pv": BINARY32,
        "scale_position": "both",
        "scaled_operands": "fp32",
        "p_format": "fp32",
        "p_normalised": True,
        "block": None,
    }


def packed(x: Any) -> Any:
    """(batch, heads, n, d) as (batch, n, heads d)."""
    batch, heads, n, d = x.shape
    return x.swapaxes(1, 2).reshape(batch, n, heads * d)


def unpacked(x: Any, heads: int) -> Any:
    """(batch, n, heads d) as (batch, heads, n, d)."""
    batch, n, width = x.shape
    return x.reshape(batch, n, heads, width // heads).swapaxes(1, 2)


@kernel(
    name="onnxruntime-multi-head-attention",
    operation="attention",
    summary="onnxruntime MultiHeadAttention (com.microsoft)",
    formats=FORMATS,
    devices=("cpu",),
    tensors="numpy",
    model={"fp16": attention_model("fp16"), "fp32": "single"},
    corner="top-left",
    masked_nonfinite="leaks",
    without=("gqa", "empty"),
    refuted=dict.fromkeys(FORMATS, "unidirectional with n_q < n_k: the last query sees every key"),
    libraries=("onnxruntime", "onnx"),
    unavailable=missing,
    source=SOURCE,
)
def multi_head(
    q: Any, k: Any, v: Any, *, scale: float | None = None, causal: bool = False, bias: Any = None
) -> Any:
    """q (batch, heads, n_q, d), k (batch, heads, n_k, d), v (batch, heads, n_k, d_v)."""
    import numpy as np

    attributes: dict[str, Any] = {"num_heads": q.shape[1], "unidirectional": int(causal)}
    if scale is not None:
        attributes["scale"] = scale
    inputs = {"q": packed(q), "k": packed(k), "v": packed(v), "b": None, "mask": None, "bias": None}
    if bias is not None:
        wide = bias.reshape(*[1] * (4 - bias.ndim), *bias.shape)
        inputs["bias"] = np.broadcast_to(wide, (*wide.shape[:2], q.shape[2], k.shape[2]))
    out = run("MultiHeadAttention", inputs, attributes, domain="com.microsoft")
    return unpacked(out, q.shape[1])


@kernel(
    name="onnxruntime-group-query-attention",
    operation="attention",
    summary="onnxruntime GroupQueryAttention (com.microsoft)",
    formats=FORMATS,
    devices=("cpu",),
    tensors="numpy",
    model={"fp16": grouped_model("fp16"), "fp32": "single"},
    masked_nonfinite="leaks",
    without=("d_v", "empty"),
    d_multiple=8,
    libraries=("onnxruntime", "onnx"),
    unavailable=missing,
    source=SOURCE,
)
def group_query(
    q: Any,
    k: Any,
    v: Any,
    *,
    scale: float | None = None,
    causal: bool = False,
    softcap: float | None = None,
) -> Any:
    """q (batch, heads, n_q, d), k and v (batch, kv_heads, n_k, d)."""
    if causal and q.shape[2] <= k.shape[2]:
        return last_queries(q, k, v, scale, softcap)
    if causal:  # the first queries see no key
        import numpy as np

        unseen = q.shape[2] - k.shape[2]
        rest = last_queries(q[:, :, unseen:], k, v, scale, softcap)
        return np.concatenate([np.zeros_like(q[:, :, :unseen]), rest], axis=2)
    batch, heads, n_q, d = q.shape
    alone = q.reshape(batch, heads * n_q, 1, d)
    return last_queries(alone, k, v, scale, softcap).reshape(q.shape)


def last_queries(q: Any, k: Any, v: Any, scale: float | None, softcap: float | None) -> Any:
    """Causal attention of the last n_q <= n_k places; the keys before them are the past."""
    import numpy as np

    (batch, heads, n_q, _), n_k = q.shape, k.shape[2]
    past = n_k - n_q
    if past and n_q > 1 and batch > 1:
        each = (slice(b, b + 1) for b in range(batch))
        return np.concatenate([last_queries(q[b], k[b], v[b], scale, softcap) for b in each])
    attributes: dict[str, Any] = {"num_heads": heads, "kv_num_heads": k.shape[1]}
    attributes |= {"softcap": softcap or 0.0} | ({} if scale is None else {"scale": scale})
    inputs = {
        "q": packed(q),
        "k": packed(k[:, :, past:]),
        "v": packed(v[:, :, past:]),
        "past_k": k[:, :, :past] if past else None,
        "past_v": v[:, :, :past] if past else None,
        "lengths": np.full(batch, n_k - 1, np.int32),
        "total": np.array([n_k], np.int32),
    }
    out = run("GroupQueryAttention", inputs, attributes, domain="com.microsoft", outputs=3)
    return unpacked(out, heads)
