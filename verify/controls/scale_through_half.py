"""The scale is rounded to a 16-bit format on its way to the kernel.

Shows       d = 8 (1/sqrt(8) is off by 8e-5 in fp16, 1e-3 in bf16) and |s| = 100: the log-sum-exp.
Report      https://github.com/ml-explore/mlx/pull/3119 (largest error 0.00586, after it 0.00098).
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from verify.controls._control import control, honest, low_format
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online
from verify.kernels._precision import rounded


class HalfScale(Online):
    """scale rounded to 16 bits."""

    def attend(self, call: Call) -> tuple[Tensor, Tensor]:
        scale = rounded(torch.tensor(call.scale), low_format(call.format))
        return super().attend(replace(call, scale=float(scale)))


@control("scale-through-half", "scale rounded to 16 bits")
def scale_through_half(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(HalfScale(block=block))
