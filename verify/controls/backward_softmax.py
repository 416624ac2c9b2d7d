"""Backward passes of softmax and log-softmax that forget the sum over the row.

Shows       anything where sum y dy (or sum dy) is not 0.
Report      softmax gradients copied from a sigmoid's.
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
