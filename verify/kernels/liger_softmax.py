"""Liger-Kernel's softmax (Triton), under the interpreter.

Read in liger_kernel 0.8.5, ops/softmax.py: one program a row loads the whole row in the format of
the input, and subtracts, exponentiates, sums and divides in that format (nothing is converted).
Under the interpreter these are NumPy's operations, so that the model is that of NumPy in the same
format (`scipy_softmax`).  Rows are limited to 65536 columns: longer ones raise.
"""

from __future__ import annotations

from torch import Tensor

from verify.kernels import kernel
from verify.kernels._triton import FORMATS, SEMANTICS, interpreted
from verify.kernels.scipy_softmax import numpy_model


@kernel(
    name="liger-softmax",
    operation="softmax",
    summary=f"Liger-Kernel softmax, {SEMANTICS}",
    formats=FORMATS,
    devices=("cpu",),
    model={name: numpy_model(name) for name in FORMATS},
    without=("empty",),
    unavailable=interpreted("liger_kernel", extra="triton"),
    libraries=("liger-kernel", "triton"),
    source=f"liger_kernel 0.8.5: ops/softmax.py; {SEMANTICS}",
)
def softmax(x: Tensor) -> Tensor:
    """x (rows, n), n <= 65536."""
    from liger_kernel.ops.softmax import LigerSoftmaxFunction

    found: Tensor = LigerSoftmaxFunction.apply(x)
    return found
