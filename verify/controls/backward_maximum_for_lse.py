"""P of the backward pass is exp(s - m): the row maximum stands where the log-sum-exp should.

Shows       any row with more than one key of weight.
Report      backward kernels that read the statistics of the forward pass from the wrong buffer.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from verify.controls._control import control, honest_backward
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_backward import FlashBackward


class MaximumForLse(FlashBackward):
    """The forward pass hands out m in place of m + ln l."""

    def forward(self, call: Call) -> tuple[Tensor, Tensor]:
        out, lse = super().forward(call)
        if call.n_k == 0:
            return out, lse
        s = self.steps.live_scores(replace(call), slice(None))
        m = s.amax(dim=-1, keepdim=True)
        return out, m if call.sinks is None else torch.maximum(m, call.sinks)


@control(
    "maximum-for-lse-backward",
    "P = exp(s - m) in the backward pass",
    operation="attention_backward",
)
def maximum_for_lse() -> Kernel:
    """Tiles of 16 keys."""
    return honest_backward(MaximumForLse())
