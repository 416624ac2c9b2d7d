"""Textbook backward passes of attention, flash and split-KV: P formed again from the log-sum-exp.

The arithmetic: the forward pass is the online textbook kernel, or that of split-KV; D = rowsum(dO
O) from the stored output, P = exp(s - LSE), dP and all accumulators binary32; P and dS rounded to
the input format before they enter dV, dQ and dK; the scale multiplies the finished gradient; heads
of a kv head are added in binary32.  Split-KV forms a dQ for each part of the keys, from output and
log-sum-exp of the merged whole, and adds them in binary32.  The gradients of the other textbook
kernels come from automatic differentiation (`attncert certify textbook-attention-shifted
--direction backward`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from verify.kernels import kernel
from verify.kernels._attention_backward import FlashBackward, SplitBackward
from verify.kernels._attention_tiled import Online, Split


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


@kernel(
    name="textbook-attention-split-backward",
    operation="attention_backward",
    summary="split-KV backward: a dQ for each part of the keys",
    factory=True,
)
def split_backward(splits: int = 4, queries: int = 16, block: int = 16) -> Callable[..., Any]:
    """Parts of the keys, each in tiles of `block` keys; tiles of `queries`."""
    made = SplitBackward(queries, block, steps=Split(block=block, splits=splits))
    return made.kernel(deterministic=True, rounding="nearest")
