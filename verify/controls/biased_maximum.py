"""Probabilities of a repeated maximum are truncated, the others rounded to nearest.

Shows       ties at the maximum and V of one sign: the output is low in every row.
Report      arXiv 2510.04212 (training that diverged through biased roundings at repeated maxima).
"""

from __future__ import annotations

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.controls.truncating_stores import truncated
from verify.kernels._attention import Call, Kernel, TwoPass
from verify.kernels._precision import dtype_of


class BiasedMaximum(TwoPass):
    """P = e / l, and rounded down where e = 1 more than once in the row."""

    def stored_p(self, p: Tensor, call: Call) -> Tensor:
        if p.shape[-1] == 0:
            return p
        ties = p == p.amax(dim=-1, keepdim=True)
        repeated = ties & (ties.sum(dim=-1, keepdim=True) > 1)
        down = truncated(p, dtype_of(call.format)).float()
        return torch.where(repeated, down, super().stored_p(p, call))


@control("biased-maximum", "repeated maxima truncated", formats=("fp16", "bf16"))
def biased_maximum() -> Kernel:
    """All scores at once."""
    return honest(BiasedMaximum())
