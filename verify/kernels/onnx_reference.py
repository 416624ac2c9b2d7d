"""The ONNX reference evaluator: Softmax, LogSoftmax, ReduceLogSumExp and Attention in NumPy.

It is what ONNX backends are compared with.  Everything is computed in the format of the input
(onnx/reference/ops/op_attention.py, op_softmax.py), with NumPy's arithmetic: matrix products of
binary16 and bfloat16 are accumulated in binary32 and rounded once; the exponential is NumPy's; sums
of binary16 rows are accumulated in binary32, sums of bfloat16 (ml_dtypes) add one rounded number
after another.  Q and K are both multiplied by sqrt(scale) and rounded.

LogSoftmax is the logarithm of Softmax: entries below the smallest number give -inf.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from torch import Tensor

from verify.kernels import kernel
from verify.kernels._arrays import array, tensor
from verify.kernels._installed import needs
from verify.kernels._onnx import model
from verify.kernels._softmax import softmax_model
from verify.kernels.onnxruntime_attention import BINARY32, additive
from verify.kernels.scipy_softmax import EXP_ULPS, LOG_ULPS

FORMATS = ("fp16", "bf16", "fp32")
LIBRARIES = ("onnx", "ml_dtypes")
SOURCE = "onnx 1.23.2 onnx/reference/ops/op_attention.py, op_softmax.py, op_log_softmax.py"
missing = needs("onnx", "ml_dtypes", extra="onnx")


def row_model(name: str) -> dict[str, Any]:
    """Every operation in the format of the input."""
    sequential = {"row_sum_order": "any"} if name == "bf16" else {}
    return softmax_model(
        name,
        inner=name,
        exp_ulps=EXP_ULPS.get(name, 0.51),
        log_ulps=LOG_ULPS.get(name, 0.51),
        **sequential,
    )


def attention_model(name: str) -> dict[str, Any]:
    """Every array in the format of the input; matrix products accumulate in binary32."""
    return {
        **row_model(name),
        "name": "onnx-reference-attention",
        "qk": BINARY32,
        "pv": BINARY32,
        "scale_format": name,
        "scale_position": "both",
        "scaled_operands": name,
        "stored_scores": name,
        "stores": "each",
        "tanh_ulps": 2.0,
    }


@lru_cache(maxsize=64)
def _evaluator(op: str, inputs: Any, attributes: Any, opset: int) -> Any:
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(model(op, inputs, attributes, opset=opset))


def evaluate(op: str, inputs: dict[str, Any], attributes: dict[str, Any], opset: int) -> Any:
    """The output of one node; inputs that are None are left out at the end."""
    import numpy as np

    given = {name: a for name, a in inputs.items() if a is not None}
    kinds = tuple((name, a.dtype.name) for name, a in given.items())
    run = _evaluator(op, kinds, tuple(sorted(attributes.items())), opset)
    with np.errstate(all="ignore"):
        return run.run(None, given)[0]


@kernel(
    name="onnx-reference-softmax",
    operation="softmax",
    summary="Softmax of the ONNX reference evaluator",
    formats=FORMATS,
    devices=("cpu",),
    model={name: row_model(name) for name in FORMATS},
    without=("strides", "empty"),
    libraries=LIBRARIES,
    unavailable=missing,
    source=SOURCE,
)
def softmax(x: Tensor) -> Tensor:
    """x (rows, n)."""
    return tensor(evaluate("Softmax", {"x": array(x)}, {"axis": -1}, 13))


@kernel(
    name="onnx-reference-log-softmax",
    operation="log_softmax",
    summary="LogSoftmax of the ONNX reference evaluator",
    formats=FORMATS,
    devices=("cpu",),
    model={name: row_model(name) for name in FORMATS},
    without=("strides", "empty"),
    libraries=LIBRARIES,
    unavailable=missing,
    refuted=dict.fromkeys(FORMATS, "-inf where softmax underflows: it is log(softmax(x))"),
    source=SOURCE,
)
def log_softmax(x: Tensor) -> Tensor:
    """x (rows, n)."""
    return tensor(evaluate("LogSoftmax", {"x": array(x)}, {"axis": -1}, 13))


@kernel(
    name="onnx-reference-logsumexp",
    operation="logsumexp",
    summary="ReduceLogSumExp of the ONNX reference evaluator",
    formats=FORMATS,
    devices=("cpu",),
    model={name: row_model(name) for name in FORMATS},
    without=("strides", "empty"),
    libraries=LIBRARIES,
    unavailable=missing,
    refuted=dict.fromkeys(FORMATS, "NaN for a row of -inf, whose log-sum-exp is -inf"),
    source="onnx 1.23.2 onnx/reference/ops/op_reduce_log_sum_exp.py",
)
def logsumexp(x: Tensor) -> Tensor:
    """x (rows, n); returns (rows,)."""
    attributes = {"axes": (-1,), "keepdims": 0}
    return tensor(evaluate("ReduceLogSumExp", {"x": array(x)}, attributes, 13))


@kernel(
    name="onnx-reference-attention",
    operation="attention",
    summary="Attention (ai.onnx 24) of the ONNX reference evaluator",
    formats=FORMATS,
    devices=("cpu",),
    model={name: attention_model(name) for name in FORMATS},
    corner="top-left",
    refuted={"fp16": "a removed key whose score overflows makes its row NaN: +inf + -inf"},
    masked_nonfinite="leaks",
    without=("strides", "empty"),
    libraries=LIBRARIES,
    unavailable=missing,
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
    softcap: float | None = None,
) -> Tensor:
    """q (batch, heads, n_q, d), k (batch, kv_heads, n_k, d), v (batch, kv_heads, n_k, d_v)."""
    attributes: dict[str, Any] = {"is_causal": int(causal), "softcap": softcap or 0.0}
    if scale is not None:
        attributes["scale"] = scale
    inputs = {name: array(x) for name, x in (("q", q), ("k", k), ("v", v))}
    given = (None if x is None else array(x) for x in (mask, bias))
    removed, added = given
    inputs["mask"] = additive(removed, added, (q.shape[2], k.shape[2]))
    return tensor(evaluate("Attention", inputs, attributes, 24))
