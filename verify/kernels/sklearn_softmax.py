"""sklearn.utils.extmath.softmax, along the last axis.

NumPy operations in the format of the input, one after another and in place (scikit-learn 1.9.1,
sklearn/utils/extmath.py): x - max, exp, sum, a true division.  The model is that of NumPy
(`scipy_softmax`), whose binary16 sums of contiguous rows are accumulated in binary32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from verify.kernels import kernel
from verify.kernels._installed import needs
from verify.kernels.scipy_softmax import FORMATS, numpy_model


@kernel(
    name="sklearn-softmax",
    operation="softmax",
    summary="sklearn.utils.extmath.softmax",
    formats=FORMATS,
    devices=("cpu",),
    tensors="numpy",
    model={name: numpy_model(name) for name in FORMATS},
    without=("strides", "empty"),
    unavailable=needs("sklearn", extra="sklearn"),
    libraries=("scikit-learn",),
    source="scikit-learn 1.9.1: sklearn/utils/extmath.py; "
    "numpy/_core/src/umath/loops_exponent_log.dispatch.c.src",
)
def softmax(x: Any) -> Any:
    """x (rows, n)."""
    from sklearn.utils.extmath import softmax as run

    with np.errstate(all="ignore"):
        return run(x)
