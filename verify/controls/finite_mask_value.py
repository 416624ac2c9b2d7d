"""A masked score becomes -1e4 and takes part in the maximum and in the row sum.

Shows       two keys, one of them masked, the live score -2e4: the masked value wins.
Report      transformers' additive masks (finfo.min, -1e4); flashinfer issue 4452.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online


@dataclass(frozen=True)
class FiniteMask(Online):
    """Masked scores are a finite number."""

    value: float = -1e4

    def masked(self, s: Tensor, call: Call, keys: slice) -> Tensor:
        return torch.where(call.visible[..., keys], s, self.value)


@control("finite-mask-value", "masked scores are -1e4, not removed")
def finite_mask_value(value: float = -1e4, block: int = 16) -> Kernel:
    """`value` of a masked score."""
    return honest(FiniteMask(block=block, value=float(value)))
