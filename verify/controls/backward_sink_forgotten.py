"""The gradient of the sinks is 0.

Shows       a sink of a weight like that of the keys.
Report      sinks that were added to the forward pass of a kernel only.
"""

from __future__ import annotations

import torch
from torch import Tensor

from verify.controls._control import control, honest_backward
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_backward import FlashBackward, Gradients


class SinkForgotten(FlashBackward):
    """dsinks = 0."""

    def gradients(self, call: Call, do: Tensor, dtype: torch.dtype) -> Gradients:
        found = super().gradients(call, do, dtype)
        if call.sinks is not None:
            found["dsinks"] = torch.zeros_like(found["dsinks"])
        return found


@control("sink-forgotten-backward", "dsinks = 0", operation="attention_backward")
def sink_forgotten() -> Kernel:
    """Tiles of 16 keys."""
    return honest_backward(SinkForgotten())
