"""Declares batch invariance, but the tiles depend on the batch.

Shows       a batch row against the same row alone; each result is within its bound.
Report      https://github.com/vllm-project/vllm/issues/27433, pull 48694.
"""

from __future__ import annotations

from verify.controls._control import control, honest
from verify.controls.right_tiles import BatchDependent
from verify.kernels._attention import Kernel


@control("batch-dependent", "declares batch invariance, and does not have it")
def batch_dependent(block: int = 16) -> Kernel:
    """Tiles of `block` keys, three times as long for an odd batch."""
    return honest(BatchDependent(block=block), batch_invariant=True)
