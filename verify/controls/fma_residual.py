"""exp2(fma(s, c, -round(m c))): at large |s| the rounding of m c is as large as the exponent.

Shows       one key with |s| >= 1e6: P is not 1, and the output is not v.
Report      https://github.com/Dao-AILab/flash-attention (softmax.h, scale_apply_exp2): right for
            moderate scores, which its authors rely on; here the domain of scores is not declared.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.kernels._attention import INFINITY, Kernel
from verify.kernels._attention_tiled import Online

LOG2_E = 1.4426950216293335  # log2(e) rounded to binary32


class FmaResidual(Online):
    """P = exp2(s c - round(m c)), one rounding after an exact product."""

    def shifted(self, s: Tensor, m: Tensor) -> Tensor:
        base = (torch.where(m == -INFINITY, 0.0, m) * LOG2_E).double()
        return torch.exp2((s.double() * LOG2_E - base).float())

    def correction(self, m: Tensor, new: Tensor) -> Tensor:
        return torch.exp2((m - torch.where(new == -INFINITY, 0.0, new)) * LOG2_E)


@control("fma-residual", "exp2(fma(s, c, -round(m c))) without a domain of scores")
def fma_residual(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    assert math.isclose(LOG2_E, math.log2(math.e), rel_tol=2**-24)
    return honest(FmaResidual(block=block))
