"""The cross-entropy of the class beside the target.

Shows       x = [0, 1, 2], target 1: the loss of class 2.
Report      the usual slip where label 0 means "background" or padding.
"""

from __future__ import annotations

import torch
from torch import Tensor

from verify.controls._control import control
from verify.declaration import declare
from verify.kernels._attention import Kernel


@control("target-off-by-one", "the loss of the next class", operation="cross_entropy")
def target_off_by_one() -> Kernel:
    """The last class counts as itself."""

    def cross_entropy(x: Tensor, target: Tensor) -> Tensor:
        """x (rows, n), target (rows,)."""
        wrong = (target + 1).clamp(max=x.shape[-1] - 1)
        rows = torch.log_softmax(x.float(), dim=-1)
        return -rows.gather(-1, wrong[:, None]).squeeze(-1).to(x.dtype)

    return declare(operation="cross_entropy", deterministic=True)(cross_entropy)
