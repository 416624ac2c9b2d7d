"""Softmax as it should be: in binary32, with the row maximum subtracted, rounded once at the end.

(Subtracting before the conversion to binary32 would round x - m to the input format. attncert
refutes that variant: `x - m` must be formed in binary32.)
"""

import torch
from torch import Tensor


def softmax(x: Tensor) -> Tensor:
    """x (rows, n), along the last axis."""
    wide = x.float()
    e = torch.exp(wide - wide.amax(dim=-1, keepdim=True))
    return (e / e.sum(dim=-1, keepdim=True)).to(x.dtype)
