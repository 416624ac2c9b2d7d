"""flash-attention-jax: flash_attention and causal_flash_attention, XLA on a CPU, in binary32.

Read in flash-attention-jax 0.3.1, flash_attention.py and causal_flash_attention.py.  q is
multiplied by 1/sqrt(d).  Keys come in chunks of 1024; the output is normalised in every chunk,
which costs more roundings than a rescale has and than a last division (`exp_ulps` = 4 in place of 2
stands for them), and 1e-10 is added to the row sum of each chunk, at least 1 (`stored_row_sum`, one
unit roundoff, stands for it).  XLA flushes subnormal numbers.

Of 16-bit inputs the two functions keep different steps in 16 bits, by JAX's rules of promotion;
that is not declared, and the formats are not claimed.  There is no `scale`; d_v is d; the mask is
of keys alone and not claimed.  The causal corner is the lower right one, and a row without keys is
NaN (0 / 0).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from verify.kernels import kernel
from verify.kernels._installed import needs
from verify.kernels._jax import from_jax, to_jax
from verify.kernels.jax_attention import BINARY32

CHUNK = 1024
FORMATS = ("fp32",)
SOURCE = "flash-attention-jax 0.3.1: flash_attention.py, causal_flash_attention.py"


def model() -> dict[str, Any]:
    """Binary32 throughout, in chunks of 1024 keys."""
    return {
        "name": "flash-attention-jax",
        "input": "fp32",
        "output": "fp32",
        "qk": BINARY32,
        "pv": BINARY32,
        "scale_position": "query",
        "scaled_operands": "fp32",
        "p_format": "fp32",
        "exp_ulps": 4.0,
        "stored_row_sum": "fp32",
        "flush_to_zero": True,
        "block": CHUNK,
    }


@kernel(
    name="flash-attention-jax",
    operation="attention",
    summary="flash-attention-jax, XLA on a CPU",
    formats=FORMATS,
    devices=("cpu",),
    model={"fp32": model()},
    empty_row="nan",
    masked_nonfinite="leaks",
    without=("d_v", "gqa", "empty"),
    libraries=("flash-attention-jax", "jax", "jaxlib"),
    refuted=dict.fromkeys(
        FORMATS,
        "keys beyond the last multiple of 1024 are counted with others again, and so many queries "
        "give an output of more rows than there are queries; the maximum of a row starts at -1e6: "
        "where every score is lower still, 0 / 0",
    ),
    unavailable=needs("flash_attention_jax", "jax", extra="flash-attention-jax"),
    source=SOURCE,
)
def attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False) -> Tensor:
    """q (batch, heads, n_q, d), k and v (batch, heads, n_k, d)."""
    import flash_attention_jax
    import jax

    inputs = [to_jax(x) for x in (q, k, v)]
    if causal:
        out = flash_attention_jax.causal_flash_attention(*inputs)
    else:
        every = jax.numpy.ones((k.shape[0], k.shape[2]), bool)
        out = flash_attention_jax.flash_attention(*inputs, every)
    return from_jax(out)
