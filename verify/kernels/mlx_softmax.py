"""mlx.core.softmax on the CPU, along the last axis; `precise` or not.

What it does, read in mlx/backend/cpu/softmax.cpp and mlx/backend/cpu/simd/math.h and confirmed on
mlx 0.32.4: shift, exponential, row sum, and the product with the reciprocal of the sum are binary32
where `precise` is set or the input is binary32; else every step is rounded to the input format,
the sum too, lane by lane.

Its vectorised exponential forms x log2 e with one rounding and a constant good to 1.4e-8, then a
polynomial: its relative error grows with |x| up to 4.2e-6 at x = -88 (2^-18 ln 2 from the
rounding, 88 * 1.4e-8 from the constant, 4u from the rest; measured over 2e6 points: 3.9e-6).
Below -88 it gives 0, and it never gives a subnormal number below 2^-127.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from verify.kernels import kernel
from verify.kernels._installed import needs
from verify.kernels._mlx import array, tensor
from verify.kernels._precision import DTYPES
from verify.kernels._softmax import softmax_model

EXP_RELATIVE = 4.5e-6
SOURCE = "mlx 0.32.4: mlx/backend/cpu/softmax.cpp, mlx/backend/cpu/simd/math.h"


def precise_model(name: str) -> dict[str, Any]:
    """Everything in binary32, one rounding at the end."""
    return softmax_model(name, exp_relative=EXP_RELATIVE, flush_exp=True)


def plain_model(name: str) -> dict[str, Any]:
    """Everything in the input format; the sum in as many chains as there are lanes."""
    if name == "fp32":
        return precise_model(name)
    # the binary32 exponential, rounded once to the format
    unit = {"fp16": 2.0**-11, "bf16": 2.0**-8}[name]
    return softmax_model(
        name,
        inner=name,
        exp_relative=(1 + EXP_RELATIVE) * (1 + unit) - 1,
        flush_exp=True,
        row_sum_order="any",
    )


@kernel(
    name="mlx-softmax-precise",
    operation="softmax",
    summary="mlx.core.softmax(precise=True)",
    devices=("cpu",),
    model={name: precise_model(name) for name in DTYPES},
    without=("empty",),
    unavailable=needs("mlx", extra="mlx"),
    libraries=("mlx",),
    source=SOURCE,
)
def precise(x: Tensor) -> Tensor:
    """x (rows, n)."""
    import mlx.core as mx

    return tensor(mx.softmax(array(x), axis=-1, precise=True, stream=mx.cpu))


@kernel(
    name="mlx-softmax",
    operation="softmax",
    summary="mlx.core.softmax, as it is called by default",
    devices=("cpu",),
    model={name: plain_model(name) for name in DTYPES},
    without=("empty",),
    unavailable=needs("mlx", extra="mlx"),
    libraries=("mlx",),
    source=SOURCE,
)
def plain(x: Tensor) -> Tensor:
    """x (rows, n)."""
    import mlx.core as mx

    return tensor(mx.softmax(array(x), axis=-1, stream=mx.cpu))
