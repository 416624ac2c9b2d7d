"""dbias of a broadcast bias is dS of the last row that used it, not the sum.

Shows       a bias that is shared by heads, by queries or by the batch.
Report      kernels that store the gradient of a broadcast bias instead of adding it atomically.
"""

from __future__ import annotations

import torch
from torch import Tensor

from verify.controls._control import control, honest_backward
from verify.kernels._attention import Kernel
from verify.kernels._attention_backward import FlashBackward


class LastWriter(FlashBackward):
    """Along every axis of length 1 the last one wins."""

    def reduced(self, ds: Tensor, shape: torch.Size) -> Tensor:
        aligned = (1,) * (ds.dim() - len(shape)) + tuple(shape)
        for axis, size in enumerate(aligned):
            if size == 1:
                ds = ds.narrow(axis, ds.shape[axis] - 1, 1)
        return ds.reshape(shape).contiguous()


@control("bias-last-writer-backward", "dbias of the last row only", operation="attention_backward")
def bias_last_writer() -> Kernel:
    """Tiles of 16 keys."""
    return honest_backward(LastWriter())
