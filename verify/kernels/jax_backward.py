"""Gradients by jax.vjp of jax.nn.dot_product_attention ("xla"), softmax and log_softmax, on a CPU.

Read in jax/_src/nn/functions.py and in the jaxpr of the vjp (jax 0.10.2, `jax_softmax_custom_jvp`
off, as it comes):

attention    dP = dO V^T has the input format as its result.  softmax is differentiated step by step
             in binary32: with e and l of the forward pass dS = e (dP / l - sum_k dP_k l^-2 e_k).
             dS times the scale in binary32; for bfloat16 it is rounded to bfloat16 where it enters
             dQ and dK (precision BF16_BF16_F32), for binary16 it is not.  P enters dV as the
             forward pass stored it.  The heads of a kv head are one contraction.  dbias is dS
             rounded to the bias's format, with a result of that format after each sum over axes of
             length 1; XLA does not say in which format it adds.
softmax      dx = e (dy / l - sum_k dy_k l^-2 e_k), every operation in the format of the input, the
             sum too: where l exceeds 255.99 its square exceeds binary16, and the sum becomes 0.
log_softmax  dx = dy - e (S / l), S = sum dy, every operation in the format of the input.

XLA flushes subnormal binary32 and bfloat16 numbers.  The declared models are those of y (dy - sum y
dy) with every operation rounded in the same formats.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor

from verify.kernels import kernel
from verify.kernels._jax import from_jax, missing, to_jax
from verify.kernels.jax_attention import attention_model, heads_inside, local_window
from verify.kernels.jax_softmax import jax_model

FORMATS = ("fp16", "bf16", "fp32")
SHARED: dict[str, Any] = {
    "formats": FORMATS,
    "devices": ("cpu",),
    "libraries": ("jax", "jaxlib"),
    "unavailable": missing,
    "source": "jax 0.10.2 jax/_src/nn/functions.py",
}


def attention_backward_model(name: str) -> dict[str, Any]:
    """Binary32 dS; dP, and in bfloat16 dS as it enters dQ and dK, in the input format."""
    return attention_model(name) | {
        "name": "jax-dot-product-attention-backward",
        "backward_p": "apart",
        "delta": "probabilities",
        "dp_format": None if name == "fp32" else name,
        "ds_format": "bf16" if name == "bf16" else "fp32",
        "ds_form": "products",
        "gradients": {"format": "fp32", "mode": "RN"},
        "gradient_scale": "operands",
        "bias_format": name,
        "more_roundings": 4,  # l^2, its reciprocal, dP / l, and one product more
    }


def row_model(name: str) -> dict[str, Any]:
    """Every operation in the format of the input."""
    return jax_model(name) | {"backward_p": "apart", "ds_form": "products", "more_roundings": 4}


ROW_MODEL = {name: row_model(name) for name in FORMATS}


def gradients(function: Callable[..., Any], given: tuple[Any, ...], upstream: Any) -> list[Tensor]:
    """The vector-Jacobian product of `function` with what comes from above."""
    import jax

    _, backward = jax.vjp(function, *given)
    return [from_jax(found) for found in backward(upstream)]


@kernel(
    name="jax-dot-product-attention-backward",
    operation="attention_backward",
    summary="the vjp of jax.nn.dot_product_attention, XLA on a CPU",
    model={name: attention_backward_model(name) for name in FORMATS},
    corner="top-left",
    empty_row="mean",
    masked_nonfinite="leaks",
    without=("d_v",),
    **SHARED,
)
def attention_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    do: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """q (batch, heads, n_q, d), k and v (batch, kv_heads, n_k, d), do like q."""
    import jax

    pairs = (q.shape[2], k.shape[2])
    call = partial(
        jax.nn.dot_product_attention,
        scale=scale,
        is_causal=causal,
        local_window_size=local_window(window, q, k),
        implementation="xla",
    )

    def forward(q: Any, k: Any, v: Any, bias: Any = None) -> Any:
        return call(q, k, v, _four_axes(bias, pairs), mask=_four_axes(to_jax(mask), pairs))

    given = tuple(heads_inside(x) for x in (q, k, v))
    if bias is not None:
        given += (to_jax(bias),)
    found = gradients(forward, given, heads_inside(do))
    return (*(x.transpose(1, 2) for x in found[:3]), *found[3:])


def _four_axes(x: Any, pairs: tuple[int, int]) -> Any:
    """A mask or bias with the axes (batch or 1, heads or 1, n_q, n_k), which JAX demands."""
    import jax

    if x is None:
        return None
    wide = x.reshape((1,) * (4 - x.ndim) + x.shape)
    return jax.numpy.broadcast_to(wide, (*wide.shape[:2], *pairs))


@kernel(
    name="jax-softmax-backward",
    operation="softmax_backward",
    summary="the vjp of jax.nn.softmax",
    refuted={
        "fp16": "the square of the row sum overflows from 256 on, and the sum of y dy is lost"
    },
    model=ROW_MODEL,
    **SHARED,
)
def softmax_backward(x: Tensor, dy: Tensor) -> Tensor:
    """x and dy (rows, n)."""
    import jax

    return gradients(jax.nn.softmax, (to_jax(x),), to_jax(dy))[0]


@kernel(
    name="jax-log-softmax-backward",
    operation="log_softmax_backward",
    summary="the vjp of jax.nn.log_softmax",
    model=ROW_MODEL,
    **SHARED,
)
def log_softmax_backward(x: Tensor, dy: Tensor) -> Tensor:
    """x and dy (rows, n)."""
    import jax

    return gradients(jax.nn.log_softmax, (to_jax(x),), to_jax(dy))[0]
