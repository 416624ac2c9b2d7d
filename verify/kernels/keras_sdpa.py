"""keras.ops.dot_product_attention on the torch backend, and keras.ops.softmax.

Read in keras 3.15.1, keras/src/backend/torch/nn.py: it calls torch's SDPA, whose model is declared
(`torch_sdpa`).  A boolean mask is added as 0 or 0.7 times about the lowest number of the format
(-45850 in binary16), not as -inf: a row whose keys are all removed gives some average, so that
nothing is declared of it.  `is_causal` has the top-left corner.  The soft cap is documented as
"only supported in JAX TPU backend", and not claimed.

softmax: torch.softmax; binary16 is converted to binary32 first on a CPU, and rounded once.
"""

from __future__ import annotations

import os
from typing import Any

from torch import Tensor

from verify.errors import UnusableError
from verify.kernels import kernel
from verify.kernels._installed import needs
from verify.kernels._masks import joined, seen, with_four_axes
from verify.kernels._precision import DTYPES
from verify.kernels._softmax import softmax_model
from verify.kernels.torch_sdpa import flash_model

SOURCE = "keras 3.15.1: keras/src/backend/torch/nn.py"


def _ops() -> Any:
    """keras.ops on the torch backend, which has to be chosen before keras is imported."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras

    if keras.backend.backend() != "torch":
        raise UnusableError(
            f"keras runs on {keras.backend.backend()}; unset KERAS_BACKEND or set it to torch"
        )
    return keras.ops


@kernel(
    name="keras-sdpa-torch",
    operation="attention",
    summary="keras.ops.dot_product_attention, torch backend",
    devices=("cpu",),
    model={name: flash_model(name, "both") for name in DTYPES},
    corner="top-left",
    empty_row="any",
    masked_nonfinite="leaks",
    without=("empty",),
    unavailable=needs("keras", extra="keras"),
    libraries=("keras",),
    refuted={
        "fp16": "the mask adds -45850: a masked key whose score lies further above the visible "
        "ones takes over the row",
        "bf16": "the mask adds a finite number: a masked key at 2e38 beats visible ones at -2e38",
        "fp32": "the mask adds a finite number: a masked key at 2e38 beats visible ones at -2e38",
    },
    source=SOURCE,
)
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """q (batch, heads, n_q, d), k (batch, kv_heads, n_k, d), v (batch, kv_heads, n_k, d_v).

    Keras takes (batch, n, heads, d), and a mask or a bias, the latter without `is_causal`.
    """
    if bias is not None and causal:
        mask, causal = seen(q, k, mask, "top-left"), False
    if bias is not None:
        bias, mask = joined(mask, bias), None
    mask = with_four_axes(mask)
    out: Tensor = _ops().dot_product_attention(
        *(x.transpose(1, 2) for x in (q, k, v)),
        bias=bias,
        mask=mask,
        scale=scale,
        is_causal=causal,
    )
    return out.transpose(1, 2)


@kernel(
    name="keras-softmax-torch",
    operation="softmax",
    summary="keras.ops.softmax, torch backend",
    devices=("cpu",),
    model={name: softmax_model(name) for name in DTYPES},
    unavailable=needs("keras", extra="keras"),
    libraries=("keras",),
    source=SOURCE,
)
def softmax(x: Tensor) -> Tensor:
    """x (rows, n)."""
    found: Tensor = _ops().softmax(x, axis=-1)
    return found
