"""JAX's own Pallas flash attention for TPUs, run by the TPU interpreter on a CPU.

Interpreter semantics: loads, masks, tiles and order of operations are the kernel's; the arithmetic
of one operation is XLA's on the CPU, not a TPU's (whose matrix unit multiplies bf16).

Read in jax 0.10.2, jax/experimental/pallas/ops/tpu/flash_attention.py.  Scores in binary32, times
the scale; -0.7 times the largest binary32 number is added to removed keys; causal alone is claimed,
with the top-left corner.

one step  where one tile holds all keys: P is divided by the row sum, rounded to the input format,
          and multiplied with V.
tiles     of 128 keys: P = exp(s - m) is rounded unnormalised; the running output is normalised in
          every tile, which costs three roundings more than a rescale has, and two more than a last
          division.  `exp_ulps` = 4 in place of 2 stands for them: 4 units roundoff more in each
          exponential and each rescale.

Tiles are of 128 here, and of all keys where their number is not a multiple of 128.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from verify.kernels import kernel
from verify.kernels._jax import from_jax, missing, to_jax
from verify.kernels.jax_attention import BINARY32, FORMATS

TILE = 128
SOURCE = "jax 0.10.2 jax/experimental/pallas/ops/tpu/flash_attention.py"


def models(name: str) -> list[dict[str, Any]]:
    """One step, and tiles."""
    shared = {
        "name": "jax-pallas-tpu-flash",
        "input": name,
        "output": name,
        "qk": BINARY32,
        "pv": BINARY32,
        "p_format": name,
        "flush_to_zero": True,
    }
    return [
        shared | {"p_normalised": True, "block": None},
        shared | {"exp_ulps": 4.0, "block": TILE},
    ]


@kernel(
    name="jax-pallas-tpu-flash",
    operation="attention",
    summary="JAX Pallas TPU flash attention in the interpreter",
    formats=FORMATS,
    devices=("cpu",),
    model={name: models(name) for name in FORMATS},
    corner="top-left",
    masked_nonfinite="leaks",
    without=("d_v", "gqa", "empty"),
    d=(1, TILE),
    refuted=dict.fromkeys(
        ("bf16", "fp32"),
        "the mask is added as a finite number: a removed key at 2e38 beats visible ones at -2e38",
    ),
    libraries=("jax", "jaxlib"),
    unavailable=missing,
    source=SOURCE,
)
def flash(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float | None = None, causal: bool = False
) -> Tensor:
    """q (batch, heads, n_q, d), k and v (batch, heads, n_k, d)."""
    from jax.experimental.pallas import tpu
    from jax.experimental.pallas.ops.tpu import flash_attention as module

    scale = q.shape[-1] ** -0.5 if scale is None else scale
    n_q, n_k = q.shape[2], k.shape[2]
    keys = TILE if n_k % TILE == 0 else n_k
    sizes = module.BlockSizes(block_q=min(n_q, TILE), block_k_major=keys, block_k=keys, block_b=1)
    with tpu.force_tpu_interpret_mode():
        out = module.flash_attention(
            *(to_jax(x) for x in (q, k, v)), causal=causal, sm_scale=scale, block_sizes=sizes
        )
    return from_jax(out)
