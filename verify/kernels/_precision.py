"""Arithmetic in a chosen format, carried out by PyTorch on any device.

A value of fp16 or bf16 lives in a tensor of that dtype; each operation on such a tensor is computed
in binary32 and rounded once, which for one addition, product or division of 11-bit numbers is the
correctly rounded result (24 >= 2 * 11 + 2 bits: the first rounding is innocuous).
"""

from __future__ import annotations

import torch
from torch import Tensor

from verify.errors import UsageError

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def dtype_of(name: str) -> torch.dtype:
    """The dtype of a format. Raises UsageError with the list of names."""
    if name not in DTYPES:
        raise UsageError(f"unknown format {name!r}; a kernel can use: {', '.join(DTYPES)}")
    return DTYPES[name]


def rounded(x: Tensor, name: str) -> Tensor:
    """x rounded to the nearest value of the format, back in binary32."""
    return x if name == "fp32" else x.to(dtype_of(name)).float()


def matrix_product(a: Tensor, b: Tensor, name: str = "fp32") -> Tensor:
    """a @ b in binary32.

    Shapes      a (..., m, K), b (..., K, n); returns (..., m, n).
    Guarantee   fp32: binary32 products and additions in an order that the library chooses; other
                formats: K products, each rounded, added one after another, each sum rounded.
    """
    if name == "fp32":
        return torch.matmul(a, b)
    low_a, low_b = a.to(dtype_of(name)), b.to(dtype_of(name))
    total = low_a.new_zeros(*a.shape[:-1], b.shape[-1])
    for i in range(a.shape[-1]):
        total = total + low_a[..., :, i : i + 1] * low_b[..., i : i + 1, :]
    return total.float()


def row_total(x: Tensor, name: str = "fp32") -> Tensor:
    """The sum along the last axis, kept as an axis of length 1; other formats: one addition after
    another, each rounded."""
    if name == "fp32":
        return x.sum(dim=-1, keepdim=True)
    low = x.to(dtype_of(name))
    total = torch.zeros_like(low[..., :1])
    for i in range(x.shape[-1]):
        total = total + low[..., i : i + 1]
    return total.float()
