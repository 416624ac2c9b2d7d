"""scipy.special.softmax, log_softmax and logsumexp, along the last axis.

They compute in the format of the input with NumPy (scipy/special/_logsumexp.py): every x - m, exp,
log and log1p is rounded to it; binary16 sums of contiguous rows are accumulated in binary32 and
rounded once (others are chains of binary16 additions, so that strides are not claimed).  NumPy
documents its AVX-512 exp as 2.52 ulp and log as 3.83 ulp in binary32; in binary16 both were found
within 0.501 ulp over all values.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np

from verify.kernels import kernel
from verify.kernels._softmax import softmax_model

FORMATS = ("fp16", "fp32")  # NumPy has no bfloat16
EXP_ULPS = {"fp16": 0.51, "fp32": 2.6}
LOG_ULPS = {"fp16": 0.51, "fp32": 4.0}
SOURCE = "scipy/special/_logsumexp.py; numpy/_core/src/umath/loops_exponent_log.dispatch.c.src"


def numpy_model(name: str, logs: int = 1) -> dict[str, Any]:
    """The model in a format; `logs`: how many logarithms and roundings of them are added up."""
    return softmax_model(
        name,
        inner=name,
        exp_ulps=EXP_ULPS[name],
        log_ulps=LOG_ULPS[name] * logs,
    )


def missing() -> str | None:
    """The reason where scipy is not installed."""
    return None if find_spec("scipy") else "scipy is not installed (pip install 'attncert[scipy]')"


@kernel(
    name="scipy-softmax",
    operation="softmax",
    summary="scipy.special.softmax",
    formats=FORMATS,
    devices=("cpu",),
    tensors="numpy",
    model={name: numpy_model(name) for name in FORMATS},
    without=("strides", "empty"),
    unavailable=missing,
    source=SOURCE,
)
def softmax(x: Any) -> Any:
    """x (rows, n)."""
    from scipy import special

    with np.errstate(all="ignore"):
        return special.softmax(x, axis=-1)


@kernel(
    name="scipy-log-softmax",
    operation="log_softmax",
    summary="scipy.special.log_softmax",
    formats=FORMATS,
    devices=("cpu",),
    tensors="numpy",
    model={name: numpy_model(name) for name in FORMATS},
    without=("strides", "empty"),
    unavailable=missing,
    source=SOURCE,
)
def log_softmax(x: Any) -> Any:
    """x (rows, n)."""
    from scipy import special

    with np.errstate(all="ignore"):
        return special.log_softmax(x, axis=-1)


@kernel(
    name="scipy-logsumexp",
    operation="logsumexp",
    summary="scipy.special.logsumexp",
    formats=FORMATS,
    devices=("cpu",),
    tensors="numpy",
    model={name: numpy_model(name, logs=4) for name in FORMATS},
    without=("strides", "empty"),
    unavailable=missing,
    source=SOURCE,
)
def logsumexp(x: Any) -> Any:
    """x (rows, n); returns (rows,): m + log(count of m) + log1p(the other terms / count)."""
    from scipy import special

    with np.errstate(all="ignore"):
        return np.asarray(special.logsumexp(x, axis=-1))
