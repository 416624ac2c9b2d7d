"""onnxruntime's Softmax, LogSoftmax and ReduceLogSumExp on a CPU, along the last axis.

Softmax and LogSoftmax (onnxruntime/core/providers/cpu/math/softmax_shared.cc) convert binary16 to
binary32, call MLAS (core/mlas/lib/compute.cpp) and round once.  MLAS sums exp(x - m) in binary32
and multiplies by the reciprocal of the sum; its log-softmax is x - m - ln(sum).  The exponential is
a polynomial (MlasComputeSumExpF32Kernel, in assembly where there is AVX-512), for which no error is
documented; it follows Cephes, 2 ulp.
"""

from __future__ import annotations

from typing import Any

from verify.kernels import kernel
from verify.kernels._onnx import missing, run
from verify.kernels._softmax import softmax_model

FORMATS = ("fp16", "fp32")  # bfloat16 is not implemented for these operators on the CPU
SOURCE = "onnxruntime 1.32 core/mlas/lib/compute.cpp, core/providers/cpu/math/softmax_shared.cc"
MODEL = {name: softmax_model(name) for name in FORMATS}


@kernel(
    name="onnxruntime-softmax",
    operation="softmax",
    summary="onnxruntime Softmax (ai.onnx 13)",
    formats=FORMATS,
    devices=("cpu",),
    tensors="numpy",
    model=MODEL,
    libraries=("onnxruntime", "onnx"),
    unavailable=missing,
    source=SOURCE,
)
def softmax(x: Any) -> Any:
    """x (rows, n)."""
    return run("Softmax", {"x": x}, {"axis": -1}, opset=13)


@kernel(
    name="onnxruntime-log-softmax",
    operation="log_softmax",
    summary="onnxruntime LogSoftmax (ai.onnx 13)",
    formats=FORMATS,
    devices=("cpu",),
    tensors="numpy",
    model=MODEL,
    libraries=("onnxruntime", "onnx"),
    unavailable=missing,
    source=SOURCE,
)
def log_softmax(x: Any) -> Any:
    """x (rows, n)."""
    return run("LogSoftmax", {"x": x}, {"axis": -1}, opset=13)


@kernel(
    name="onnxruntime-logsumexp",
    operation="logsumexp",
    summary="onnxruntime ReduceLogSumExp (ai.onnx 13)",
    formats=("fp32",),
    devices=("cpu",),
    tensors="numpy",
    model={"fp32": softmax_model("fp32")},
    libraries=("onnxruntime", "onnx"),
    unavailable=missing,
    source="onnxruntime 1.32 core/providers/cpu/reduction/reduction_ops.h",
)
def logsumexp(x: Any) -> Any:
    """x (rows, n); returns (rows,)."""
    return run("ReduceLogSumExp", {"x": x}, {"axes": (-1,), "keepdims": 0}, opset=13)
