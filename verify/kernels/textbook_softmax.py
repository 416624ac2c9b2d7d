"""Textbook softmax in PyTorch along the last axis: naive, shifted, online, two-pass; log_softmax
and logsumexp.

Option `format` is the format of shift, exponential, sum and division (default binary32; for the
naive one that of the input, as everybody writes it).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from verify.declaration import declare
from verify.kernels import kernel
from verify.kernels._attention import INFINITY, Kernel
from verify.kernels._precision import DTYPES, dtype_of


def _model(name: str, inner: str, **changes: Any) -> dict[str, Any]:
    plain = {
        "name": "textbook",
        "input": name,
        "output": name,
        "p_format": name,
        "p_normalised": True,
        "softmax_format": inner,
        "row_sum": {"format": inner, "mode": "RN"},
        "lse_format": name,
        "block": None,
    }
    return plain | changes


def _models(inner: str | None, **changes: Any) -> dict[str, dict[str, Any]]:
    return {name: _model(name, inner or name, **changes) for name in DTYPES}


def _marked(function: Kernel, operation: str, models: dict[str, dict[str, Any]]) -> Kernel:
    mark = declare(operation=operation, model=models, deterministic=True, rounding="nearest")
    return mark(function)


def _maximum(x: Tensor) -> Tensor:
    """The row maximum, (rows, 1); of a row without entries -inf."""
    none = torch.full_like(x.sum(dim=-1, keepdim=True), -INFINITY)
    return x.amax(dim=-1, keepdim=True) if x.shape[-1] else none


@kernel(
    name="textbook-softmax-naive",
    operation="softmax",
    summary="exp(x) / sum exp(x), no shift",
    factory=True,
    expected="fail",
)
def naive(format: str | None = None) -> Kernel:
    """exp(x) / sum exp(x): overflows where x exceeds 11.09 (fp16) or 88.72 (bf16, fp32)."""
    inner = None if format is None else dtype_of(format)

    def softmax(x: Tensor) -> Tensor:
        """x (rows, n)."""
        e = torch.exp(x if inner is None else x.to(inner))
        return (e / e.sum(dim=-1, keepdim=True)).to(x.dtype)

    return _marked(softmax, "softmax", _models(format, shift=False))


@kernel(
    name="textbook-softmax-shifted",
    operation="softmax",
    summary="exp(x - m) / sum exp(x - m)",
    factory=True,
)
def shifted(format: str = "fp32") -> Kernel:
    """exp(x - m) / l."""
    inner = dtype_of(format)

    def softmax(x: Tensor) -> Tensor:
        """x (rows, n)."""
        y = x.to(inner)
        e = torch.exp(y - _maximum(y))
        return (e / e.sum(dim=-1, keepdim=True)).to(x.dtype)

    return _marked(softmax, "softmax", _models(format))
