"""torch.softmax, torch.log_softmax and torch.logsumexp, along the last axis.

What they do on a CPU, read in aten/src/ATen/native/cpu/SoftMaxKernel.cpp and ReduceOps.cpp and
confirmed bit for bit on torch 2.13 by a re-computation with single operations:

softmax      16-bit inputs are converted; shift, exp (within 1 ulp), sum and the product with the
             reciprocal of the sum are binary32, and the result is rounded once.
log_softmax  the same, but for 16-bit inputs the row sum is rounded to the input format, its
             logarithm again, and only then subtracted in binary32 (`tmp_sum_scalar` is scalar_t).
logsumexp    composed of tensor operations: x - m, exp, log and the last addition are each rounded
             to the input format, and so is the sum (itself accumulated in binary32).

CUDA kernels keep more in binary32, so that these models hold for them too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from verify.formats import FORMATS
from verify.kernels import kernel
from verify.kernels._precision import DTYPES
from verify.kernels._softmax import softmax_model

# One rounding of exp or log to the format, after an error of 1 binary32 ulp.
ONE_ROUNDING = 0.51


def _log_softmax_model(name: str) -> dict[str, Any]:
    if name == "fp32":
        return softmax_model(name)
    # Half an ulp of the input format, in ulp of binary32.
    rounding = 0.5 * FORMATS[name].u / FORMATS["fp32"].u + 1
    return softmax_model(
        name,
        row_sum={"format": name, "mode": "RN"},
        row_sum_order="pairwise",  # one rounding of an accurate sum is no worse
        log_ulps=rounding,
    )


def _logsumexp_model(name: str) -> dict[str, Any]:
    if name == "fp32":
        return softmax_model(name)
    return softmax_model(name, inner=name, exp_ulps=ONE_ROUNDING, log_ulps=ONE_ROUNDING)


SOURCE = "pytorch aten/src/ATen/native/cpu/SoftMaxKernel.cpp, ReduceOps.cpp"


@kernel(
    name="torch-softmax",
    operation="softmax",
    summary="torch.softmax",
    model={name: softmax_model(name) for name in DTYPES},
    source=SOURCE,
)
def softmax(x: Tensor) -> Tensor:
    """x (rows, n)."""
    return torch.softmax(x, dim=-1)


@kernel(
    name="torch-log-softmax",
    operation="log_softmax",
    summary="torch.log_softmax",
    model={name: _log_softmax_model(name) for name in DTYPES},
    source=SOURCE,
)
def log_softmax(x: Tensor) -> Tensor:
    """x (rows, n)."""
    return torch.log_softmax(x, dim=-1)


@kernel(
    name="torch-logsumexp",
    operation="logsumexp",
    summary="torch.logsumexp",
    model={name: _logsumexp_model(name) for name in DTYPES},
    source=SOURCE,
)
def logsumexp(x: Tensor) -> Tensor:
    """x (rows, n); returns (rows,) in the format of x."""
    return torch.logsumexp(x, dim=-1)


@kernel(
    name="torch-cross-entropy",
    operation="cross_entropy",
    summary="torch.nn.functional.cross_entropy, reduction='none'",
    model={name: _log_softmax_model(name) for name in DTYPES},
    source=SOURCE,
)
def cross_entropy(x: Tensor, target: Tensor) -> Tensor:
    """x (rows, n), target (rows,); log_softmax in the format of x, then the entry is picked."""
    return torch.nn.functional.cross_entropy(x, target, reduction="none")
