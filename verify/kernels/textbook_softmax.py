"""Textbook softmax in PyTorch along the last axis: naive, shifted, online, two-pass; log_softmax
and logsumexp.

Option `format` is the format of shift, exponential, sum and division (default binary32; for the
naive one that of the input, as everybody writes it).  A row of -inf gives NaN.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from verify.declaration import declare
from verify.errors import UsageError
from verify.kernels import kernel
from verify.kernels._attention import INFINITY, Kernel
from verify.kernels._precision import DTYPES, dtype_of
from verify.kernels._softmax import softmax_model


def _marked(function: Kernel, operation: str, format: str | None, **changes: Any) -> Kernel:
    """The kernel with its declaration."""
    models = {name: softmax_model(name, inner=format or name, **changes) for name in DTYPES}
    return declare(operation=operation, model=models, deterministic=True, rounding="nearest")(
        function
    )


def _maximum(x: Tensor) -> Tensor:
    """The row maximum, (rows, 1); of a row without entries -inf."""
    none = torch.full_like(x.sum(dim=-1, keepdim=True), -INFINITY)
    return x.amax(dim=-1, keepdim=True) if x.shape[-1] else none


def _shift(m: Tensor) -> Tensor:
    """The maximum, or 0 where there is none to subtract."""
    return torch.where(m == -INFINITY, 0.0, m)


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

    return _marked(softmax, "softmax", format, shift=False)


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

    return _marked(softmax, "softmax", format)


@kernel(
    name="textbook-softmax-online",
    operation="softmax",
    summary="running maximum and sum over tiles, then one pass over the row",
    factory=True,
)
def online(block: int = 16) -> Kernel:
    """Maximum and sum in one pass over tiles of `block` entries; then exp(x - m) / l."""
    if block < 1:
        raise UsageError(f"a block holds at least one entry, not {block}")

    def softmax(x: Tensor) -> Tensor:
        """x (rows, n)."""
        y = x.float()
        m = torch.full_like(y[..., :0].sum(dim=-1, keepdim=True), -INFINITY)
        l = torch.zeros_like(m)  # noqa: E741
        for start in range(0, y.shape[-1], block):
            tile = y[..., start : start + block]
            new = torch.maximum(m, _maximum(tile))
            e = torch.exp(tile - _shift(new))
            l = l * torch.exp(m - _shift(new)) + e.sum(dim=-1, keepdim=True)  # noqa: E741
            m = new
        return (torch.exp(y - m) / l).to(x.dtype)

    return _marked(softmax, "softmax", "fp32", block=block)


@kernel(
    name="textbook-softmax-two-pass",
    operation="softmax",
    summary="maximum and sum first; exponentials computed again, not stored",
    factory=True,
)
def two_pass() -> Kernel:
    """m and l in a first pass; exp(x - m) / l, computed anew, in a second."""

    def softmax(x: Tensor) -> Tensor:
        """x (rows, n)."""
        y = x.float()
        m = _maximum(y)
        l = torch.exp(y - m).sum(dim=-1, keepdim=True)  # noqa: E741
        return (torch.exp(y - m) / l).to(x.dtype)

    return _marked(softmax, "softmax", "fp32")


@kernel(
    name="textbook-softmax-division-free",
    operation="softmax",
    summary="exp((x - m) - ln l)",
    factory=True,
)
def division_free() -> Kernel:
    """exp((x - m) - ln l), up to 65536 entries.

    Model       ln l <= 11.1 carries an error of 2 ulp and the second subtraction one of u, at most
                5 u * 11.1 in the exponent: 28 ulp, besides the 2 of exp.
    Source      Blanchard, D. J. Higham, N. J. Higham, IMA J. Numer. Anal. 41(4), 2021, section 4.
    """

    def softmax(x: Tensor) -> Tensor:
        """x (rows, n)."""
        y = x.float()
        m = _maximum(y)
        l = torch.exp(y - m).sum(dim=-1, keepdim=True)  # noqa: E741
        return torch.exp((y - m) - torch.log(l)).to(x.dtype)

    return _marked(softmax, "softmax", "fp32", exp_ulps=30.0)


@kernel(
    name="textbook-log-softmax-shifted",
    operation="log_softmax",
    summary="(x - m) - ln sum exp(x - m)",
    factory=True,
)
def log_softmax(format: str = "fp32") -> Kernel:
    """(x - m) - ln l."""
    inner = dtype_of(format)

    def log_softmax(x: Tensor) -> Tensor:
        """x (rows, n)."""
        y = x.to(inner)
        t = y - _maximum(y)
        return (t - torch.log(torch.exp(t).sum(dim=-1, keepdim=True))).to(x.dtype)

    return _marked(log_softmax, "log_softmax", format)


@kernel(
    name="textbook-logsumexp-shifted",
    operation="logsumexp",
    summary="m + ln sum exp(x - m)",
    factory=True,
)
def logsumexp(format: str = "fp32") -> Kernel:
    """m + ln l; -inf for a row without entries."""
    inner = dtype_of(format)

    def logsumexp(x: Tensor) -> Tensor:
        """x (rows, n); returns (rows,) in the format of x."""
        y = x.to(inner)
        m = _shift(_maximum(y))
        l = torch.exp(y - m).sum(dim=-1, keepdim=True)  # noqa: E741
        return (m + torch.log(l)).squeeze(-1).to(x.dtype)

    return _marked(logsumexp, "logsumexp", format)


@kernel(
    name="textbook-cross-entropy",
    operation="cross_entropy",
    summary="-((x_t - m) - ln sum exp(x - m))",
    factory=True,
)
def cross_entropy(format: str = "fp32") -> Kernel:
    """ln l - (x_t - m)."""
    inner = dtype_of(format)

    def cross_entropy(x: Tensor, target: Tensor) -> Tensor:
        """x (rows, n), target (rows,) int64; returns (rows,) in the format of x."""
        y = x.to(inner)
        t = y - _maximum(y)
        chosen = t.gather(-1, target[:, None])
        return (torch.log(torch.exp(t).sum(dim=-1, keepdim=True)) - chosen).squeeze(-1).to(x.dtype)

    return _marked(cross_entropy, "cross_entropy", format)
