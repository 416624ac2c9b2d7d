"""jax.nn.softmax, jax.nn.log_softmax and jax.nn.logsumexp on a CPU, along the last axis.

They are compositions of array operations in the format of the input (jax/_src/nn/functions.py,
jax/_src/ops/special.py): each of x - m, exp, the sum, the division, log and the last addition is
rounded to it; jnp.sum accumulates 16-bit rows in binary32 and rounds once.  log_softmax is
(x - m) - ln(sum).  XLA's CPU compiler evaluates binary16 and bfloat16 operations in binary32,
flushes subnormal numbers, and documents no error of its vectorised exp and log.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from verify.kernels import kernel
from verify.kernels._jax import from_jax, missing, to_jax
from verify.kernels._softmax import softmax_model

FORMATS = ("fp16", "bf16", "fp32")
ONE_ROUNDING = 0.51  # of exp or log to 16 bits, after a small error in binary32
SOURCE = "jax 0.10.2 jax/_src/nn/functions.py, jax/_src/ops/special.py"


def jax_model(name: str) -> dict[str, Any]:
    """Every operation rounded to the format `name`."""
    if name == "fp32":
        return softmax_model(name, flush_to_zero=True)
    flushes = name == "bf16"  # its subnormal numbers are those of binary32
    return softmax_model(
        name,
        inner=name,
        exp_ulps=ONE_ROUNDING,
        log_ulps=ONE_ROUNDING,
        flush_to_zero=flushes,
    )


MODEL = {name: jax_model(name) for name in FORMATS}


@kernel(
    name="jax-softmax",
    operation="softmax",
    summary="jax.nn.softmax",
    formats=FORMATS,
    devices=("cpu",),
    model=MODEL,
    libraries=("jax", "jaxlib"),
    unavailable=missing,
    source=SOURCE,
)
def softmax(x: Tensor) -> Tensor:
    """x (rows, n)."""
    import jax

    return from_jax(jax.nn.softmax(to_jax(x), axis=-1))


@kernel(
    name="jax-log-softmax",
    operation="log_softmax",
    summary="jax.nn.log_softmax",
    formats=FORMATS,
    devices=("cpu",),
    model=MODEL,
    libraries=("jax", "jaxlib"),
    unavailable=missing,
    source=SOURCE,
)
def log_softmax(x: Tensor) -> Tensor:
    """x (rows, n)."""
    import jax

    return from_jax(jax.nn.log_softmax(to_jax(x), axis=-1))


@kernel(
    name="jax-logsumexp",
    operation="logsumexp",
    summary="jax.nn.logsumexp",
    formats=FORMATS,
    devices=("cpu",),
    model=MODEL,
    libraries=("jax", "jaxlib"),
    unavailable=missing,
    source=SOURCE,
)
def logsumexp(x: Tensor) -> Tensor:
    """x (rows, n); returns (rows,)."""
    import jax

    return from_jax(jax.nn.logsumexp(to_jax(x), axis=-1))
