"""Returns memory that it never wrote.

Shows       anything, unless the memory happens to hold the answer: poisoned outputs show it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.kernels._attention import Kernel
from verify.kernels._attention_tiled import Online


class NeverWrites(Online):
    """The output buffer as it was allocated."""

    def stored_output(self, o: Tensor, dtype: torch.dtype) -> Tensor:
        return torch.empty(o.shape, dtype=dtype, device=o.device)


@control("never-writes", "the output is never written")
def never_writes(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(NeverWrites(block=block), deterministic=False)
