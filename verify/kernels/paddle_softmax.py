"""paddle.nn.functional.softmax and log_softmax, and paddle.logsumexp, on the CPU: binary32 only.

The documentation defines softmax as exp(x_i) / sum exp(x_j) and log_softmax as its logarithm,
without exceptions; that is what is declared.  Read in paddlepaddle 3.3.1 (headers in the wheel):

softmax       paddle/phi/kernels/funcs/softmax_impl.h: x - m, never below -64 (`ValueClip`), exp,
              sum, the product with its inverse.  This limit is not documented.  With AVX it is
              max_ps (cpu_vec.h), by which NaN too becomes -64.
log_softmax   paddle/phi/kernels/cpu/log_softmax_kernel.cc: the same, and the difference from the
              logarithm of the sum.
logsumexp     paddle/phi/kernels/impl/logsumexp_kernel_impl.h: m + log sum exp(x - m).

exp and log are those of Eigen or of oneDNN: 2 ulp are allowed for.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from verify.kernels import kernel
from verify.kernels._paddle import array, library, missing, tensor
from verify.kernels._softmax import softmax_model

FORMATS = ("fp32",)
SOURCE = (
    "paddlepaddle 3.3.1: paddle/phi/kernels/funcs/softmax_impl.h, cpu/log_softmax_kernel.cc, "
    "impl/logsumexp_kernel_impl.h; API documentation of paddle.nn.functional.softmax"
)
SHARED: dict[str, Any] = {
    "formats": FORMATS,
    "devices": ("cpu",),
    "model": {"fp32": softmax_model("fp32", flush_exp=True)},
    "without": ("empty",),
    "unavailable": missing,
    "libraries": ("paddlepaddle",),
    "source": SOURCE,
}


@kernel(
    name="paddle-softmax",
    operation="softmax",
    summary="paddle.nn.functional.softmax",
    refuted={
        "fp32": "x - max is never below -64, NaN included: a row with a NaN gives 1/n each where n "
        "is a multiple of 8, and no probability is below exp(-64) of the largest"
    },
    **SHARED,
)
def softmax(x: Tensor) -> Tensor:
    """x (rows, n)."""
    return tensor(library().nn.functional.softmax(array(x), axis=-1))


@kernel(
    name="paddle-log-softmax",
    operation="log_softmax",
    summary="paddle.nn.functional.log_softmax",
    refuted={"fp32": "x - max is never below -64: the log-softmax of (0, -200) is (0, -64)"},
    **SHARED,
)
def log_softmax(x: Tensor) -> Tensor:
    """x (rows, n)."""
    return tensor(library().nn.functional.log_softmax(array(x), axis=-1))


@kernel(
    name="paddle-logsumexp",
    operation="logsumexp",
    summary="paddle.logsumexp",
    refuted={"fp32": "a row that is all -inf gives NaN, not -inf: -inf - -inf"},
    **SHARED,
)
def logsumexp(x: Tensor) -> Tensor:
    """x (rows, n); returns (rows,)."""
    return tensor(library().logsumexp(array(x), axis=-1))
