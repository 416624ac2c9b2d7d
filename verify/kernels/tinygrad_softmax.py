"""tinygrad's Tensor.softmax on its CPU device (C compiled by clang).

Read in tinygrad 0.14.0 (mixin/op.py, mixin/elementwise.py) and in the C that it writes: x - m in
the input format; exp is computed in binary32 and rounded to the input format; the row sum is added
in binary32 and rounded to it; e times the reciprocal becomes one division.  Where C keeps a 16-bit
value in binary32 the result is only more precise.

exp(x) is exp2 of the rounded x c, c = 1/ln 2 rounded to binary32 (1.34e-8 off): the exponent is off
by at most |x| (1.34e-8 + 2^-24), and |x| is below 104 where the result is not zero: 7.6e-6.  The
polynomial of xexp2 (codegen/decomp/transcendental.py) adds 1.53 units roundoff (measured on 2e7
points of its interval, with and without fma).  Together below 7.8e-6.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from verify.formats import FORMATS
from verify.kernels import kernel
from verify.kernels._precision import DTYPES
from verify.kernels._softmax import softmax_model
from verify.kernels._tinygrad import array, missing, tensor

EXP_RELATIVE = 7.8e-6
SOURCE = (
    "tinygrad 0.14.0: mixin/op.py _softmax and softmax, mixin/elementwise.py exp, "
    "codegen/decomp/transcendental.py xexp2, dtype.py sum_acc_dtype"
)


def exponential(name: str) -> dict[str, Any]:
    """The error of exp: that in binary32, and where the format is narrower its rounding."""
    unit = 0.0 if name == "fp32" else FORMATS[name].u
    return {"exp_relative": (1 + EXP_RELATIVE) * (1 + unit) - 1}


def model(name: str) -> dict[str, Any]:
    """Every step in the input format, the row sum added in binary32."""
    return softmax_model(
        name,
        inner=name,
        row_sum={"format": "fp32", "mode": "RN"},
        row_sum_order="any",
        stored_row_sum=None if name == "fp32" else name,
        **exponential(name),
    )


@kernel(
    name="tinygrad-softmax",
    operation="softmax",
    summary="tinygrad Tensor.softmax on the CPU device",
    devices=("cpu",),
    model={name: model(name) for name in DTYPES},
    without=("empty",),
    unavailable=missing,
    libraries=("tinygrad",),
    source=SOURCE,
)
def softmax(x: Tensor) -> Tensor:
    """x (rows, n)."""
    return tensor(array(x).softmax(-1))
