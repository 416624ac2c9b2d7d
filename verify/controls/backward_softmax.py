"""Backward passes of softmax and log-softmax that forget the sum over the row, or lose it.

Shows       anything where sum y dy (or sum dy) is not 0; where the square of the row sum is stored
            in binary16: from a row sum of 256 on, in every flat row of 256 entries.
Report      softmax gradients copied from a sigmoid's; reports/findings/jax-softmax-gradient.md.
"""

from __future__ import annotations

import torch
from torch import Tensor

from verify.controls._control import control
from verify.declaration import declare
from verify.kernels._attention import Kernel


@control("sum-left-out-softmax-backward", "dx = y dy", operation="softmax_backward")
def softmax_sum_left_out() -> Kernel:
    """No sum."""

    @declare(operation="softmax_backward", deterministic=True)
    def softmax_backward(x: Tensor, dy: Tensor) -> Tensor:
        """x, dy (rows, n)."""
        return (torch.softmax(x.float(), dim=-1) * dy.float()).to(x.dtype)

    return softmax_backward


@control("sum-left-out-log-softmax-backward", "dx = dy - y dy", operation="log_softmax_backward")
def log_softmax_sum_left_out() -> Kernel:
    """Each dy stands for their sum."""

    @declare(operation="log_softmax_backward", deterministic=True)
    def log_softmax_backward(x: Tensor, dy: Tensor) -> Tensor:
        """x, dy (rows, n)."""
        y = torch.softmax(x.float(), dim=-1)
        return (dy.float() - y * dy.float()).to(x.dtype)

    return log_softmax_backward


@control(
    "squared-row-sum-softmax-backward",
    "1 / l^2 in 16 bits, and 0 where l^2 overflows",
    operation="softmax_backward",
    formats=("fp16",),
)
def softmax_squared_row_sum() -> Kernel:
    """e / l differentiated step by step: e (dy / l - sum dy e / l^2)."""

    @declare(operation="softmax_backward", deterministic=True)
    def softmax_backward(x: Tensor, dy: Tensor) -> Tensor:
        """x, dy (rows, n)."""
        wide, up = x.float(), dy.float()
        e = torch.exp(wide - wide.amax(dim=-1, keepdim=True))
        l = e.sum(dim=-1, keepdim=True)  # noqa: E741
        square = (l * l).half().float()
        return (e * (up / l - (up * e / square).sum(dim=-1, keepdim=True))).to(x.dtype)

    return softmax_backward
