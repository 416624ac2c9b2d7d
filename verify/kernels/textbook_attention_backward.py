"""Textbook backward pass of attention: flash, with P formed again from the log-sum-exp.

The arithmetic: the forward pass is the online textbook kernel; D = rowsum(dO O) from the stored
output, P = exp(s - LSE), dP and all accumulators binary32; P and dS rounded to the input format
before they enter dV, dQ and dK; the scale multiplies the finished gradient; heads of a kv head are
added in binary32.  The gradients of the other textbook kernels come from automatic differentiation
(`attncert certify textbook-attention-shifted --direction backward`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from verify.kernels import kernel
from verify.kernels._attention import Online
from verify.kernels._attention_backward import FlashBackward


@kernel(
    name="textbook-attention-flash-backward",
    operation="attention_backward",
    summary="flash backward: P from the log-sum-exp, D = rowsum(dO O)",
    factory=True,
)
def flash_backward(
    queries: int = 16, block: int = 16, order: str = "forward"
) -> Callable[..., Any]:
    """Tiles of `queries` and of `block` keys; order: which keys come first."""
    made = FlashBackward(queries, block, order, Online(block=block))
    return made.kernel(deterministic=True, rounding="nearest")
