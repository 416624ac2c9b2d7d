"""Softmax written out in NumPy, as in countless scripts; in the format of the input."""

from __future__ import annotations

from typing import Any

import numpy as np

from verify.kernels import kernel
from verify.kernels.scipy_softmax import FORMATS, numpy_model


@kernel(
    name="numpy-softmax",
    operation="softmax",
    summary="exp(x - max) / sum in NumPy",
    formats=FORMATS,
    devices=("cpu",),
    tensors="numpy",
    model={name: numpy_model(name) for name in FORMATS},
    without=("strides", "empty"),
    source="numpy/_core/src/umath/loops_exponent_log.dispatch.c.src, loops_utils.h.src",
)
def softmax(x: Any) -> Any:
    """x (rows, n)."""
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)
