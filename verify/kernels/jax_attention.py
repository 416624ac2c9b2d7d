"""jax.nn.dot_product_attention, implementation "xla", on a CPU.

Read in jax/_src/nn/functions.py (_dot_product_attention_core):

    16-bit inputs are multiplied with preferred_element_type float32; the scale is applied in
    binary32; the bias is added; removed keys get -0.7 times the largest binary32 number; softmax in
    binary32; P is normalised and cast to the input format; P V has the input format as its result.

A row without keys therefore gives the mean of V.  The causal diagonal and the window begin in the
top left corner; the window is applied without regard to n_k - n_q.  XLA flushes subnormal numbers.
NaN under a mask leaks: its value is multiplied by 0.  The log-sum-exp (return_residual) is rounded
to the input format, and is about -0.7 times the largest number for an empty row.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from verify.kernels import kernel
from verify.kernels._jax import from_jax, missing, to_jax

FORMATS = ("fp16", "bf16", "fp32")
SOURCE = "jax 0.10.2 jax/_src/nn/functions.py, dot_product_attention"
BINARY32 = {"format": "fp32", "mode": "RN"}


def attention_model(name: str) -> dict[str, Any]:
    """Binary32 scores and softmax; P normalised, in the input format."""
    return {
        "name": "jax-dot-product-attention",
        "input": name,
        "output": name,
        "qk": BINARY32,
        "pv": BINARY32,
        "p_format": name,
        "p_normalised": True,
        "block": None,
        "flush_to_zero": True,
        "lse_format": name,
    }


def heads_inside(x: Tensor) -> Any:
    """(batch, heads, n, d) as JAX has it, (batch, n, heads, d)."""
    return to_jax(x.transpose(1, 2))


def local_window(window: tuple[int, int] | None, q: Tensor, k: Tensor) -> tuple[int, int] | None:
    """JAX has no word for "no limit": a limit that no key can reach."""
    far = q.shape[2] + k.shape[2]
    return window and (far if window[0] < 0 else window[0], far if window[1] < 0 else window[1])


def four_axes(x: Tensor | None, q: Tensor, k: Tensor) -> Any:
    """A mask or bias with the axes (batch or 1, heads or 1, n_q, n_k)."""
    if x is None:
        return None
    wide = x.reshape(*[1] * (4 - x.dim()), *x.shape)
    return to_jax(wide.expand(*wide.shape[:2], q.shape[2], k.shape[2]))


@kernel(
    name="jax-dot-product-attention",
    operation="attention",
    summary="jax.nn.dot_product_attention, XLA on a CPU",
    formats=FORMATS,
    devices=("cpu",),
    model={name: attention_model(name) for name in FORMATS},
    corner="top-left",
    empty_row="mean",
    empty_lse="any",
    masked_nonfinite="leaks",
    without=("d_v",),
    libraries=("jax", "jaxlib"),
    unavailable=missing,
    source=SOURCE,
)
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """q (batch, heads, n_q, d), k and v (batch, kv_heads, n_k, d)."""
    import jax

    answer = jax.nn.dot_product_attention(
        *(heads_inside(x) for x in (q, k, v)),
        four_axes(bias, q, k),
        four_axes(mask, q, k),
        scale=scale,
        is_causal=causal,
        local_window_size=local_window(window, q, k),
        implementation="xla",
        return_residual=return_lse,
    )
    if not return_lse:
        return from_jax(answer).transpose(1, 2)
    out, lse = answer
    return from_jax(out).transpose(1, 2), from_jax(lse).transpose(1, 2).to(torch.float32)
