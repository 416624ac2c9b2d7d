"""JAX's own Pallas kernels for GPUs, run by the Pallas interpreter on a CPU.

Interpreter semantics: the loads, masks, tiles and order of operations are the kernel's; the
arithmetic of one operation is XLA's on the CPU, not that of a GPU (no tensor cores, other exp2).

mha      jax/experimental/pallas/ops/gpu/attention.py, mha_forward_kernel: scores in binary32, times
         scale log2 e; running maximum and sum per tile of keys; P = exp2(s - m) is rounded to the
         input format before P V, the row sum adds it unrounded; O and l are divided at the end.
         XLA's CPU compiler computes exp2(x) as exp(x ln 2), two more roundings of the argument:
         'fma' allows for them.  Removed keys get -0.7 times the largest number; the causal corner
         is top-left; the log-sum-exp is in base 2.  Tiles of 16 queries and keys here; lengths must
         be multiples of the tile, or shorter than it.
softmax  jax/experimental/pallas/ops/gpu/softmax.py: x - m is rounded to the input format, the rest
         is binary32; one rounding of the quotient.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from verify.kernels import kernel
from verify.kernels._jax import from_jax, missing, to_jax
from verify.kernels._softmax import softmax_model
from verify.kernels.jax_attention import BINARY32, FORMATS, heads_inside

TILE = 16
SOURCE = "jax 0.10.2 jax/experimental/pallas/ops/gpu/attention.py, softmax.py"


def mha_model(name: str) -> dict[str, Any]:
    """A flash kernel with tiles of 16 keys that flushes to zero."""
    return {
        "name": "jax-pallas-mha",
        "input": name,
        "output": name,
        "qk": BINARY32,
        "pv": BINARY32,
        "exponential": "fma",
        "p_format": name,
        "block": TILE,
        "flush_to_zero": True,
    }


def rows_model(name: str) -> dict[str, Any]:
    """The shift in the input format; what follows is more precise than this model says."""
    return softmax_model(name, inner=name, exp_ulps=1.0, flush_to_zero=name != "fp16")


@kernel(
    name="jax-pallas-mha",
    operation="attention",
    summary="JAX Pallas GPU mha in the interpreter",
    formats=FORMATS,
    devices=("cpu",),
    model={name: mha_model(name) for name in FORMATS},
    corner="top-left",
    lse_base="2",
    masked_nonfinite="leaks",
    without=("d_v", "gqa", "empty"),
    n_multiple=TILE,
    refuted=dict.fromkeys(FORMATS, "causal with more queries than keys reads past the last key"),
    libraries=("jax", "jaxlib"),
    unavailable=missing,
    source=SOURCE,
)
def mha(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    causal: bool = False,
    return_lse: bool = False,
) -> Any:
    """q (batch, heads, n_q, d), k and v (batch, heads, n_k, d)."""
    from jax.experimental.pallas.ops.gpu import attention

    out, lse = attention.mha(
        *(heads_inside(x) for x in (q, k, v)),
        segment_ids=None,
        sm_scale=scale,
        causal=causal,
        block_sizes=attention.BlockSizes(block_q=TILE, block_k=TILE),
        interpret=True,
        return_residuals=True,
    )
    output = from_jax(out).transpose(1, 2)
    return (output, from_jax(lse)) if return_lse else output


@kernel(
    name="jax-pallas-softmax",
    operation="softmax",
    summary="JAX Pallas GPU softmax in the interpreter",
    formats=FORMATS,
    devices=("cpu",),
    model={name: rows_model(name) for name in FORMATS},
    without=("empty",),
    libraries=("jax", "jaxlib"),
    unavailable=missing,
    source=SOURCE,
)
def softmax(x: Tensor) -> Tensor:
    """x (rows, n)."""
    from jax.experimental.pallas.ops.gpu import softmax as module

    return from_jax(module.softmax(to_jax(x), interpret=True))
