"""The merge of empty splits gives NaN; or the log-sum-exp of an empty row is +inf.

Shows       an empty row under split-KV (more splits than keys: whole splits are empty).
Report      FlashAttention-2 writes +inf for an empty row without splits and -inf with them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.errors import UsageError
from verify.kernels._attention import INFINITY, Call, Kernel
from verify.kernels._attention_tiled import Split


@dataclass(frozen=True)
class EmptyMerge(Split):
    """exp(-inf - -inf) in the merge, or +inf for an empty row."""

    gives: str = "nan"

    def merged(self, parts: list[tuple[Tensor, Tensor]], call: Call) -> tuple[Tensor, Tensor]:
        o, lse = super().merged(parts, call)
        empty = lse == -INFINITY
        if self.gives == "infinity":
            return o, torch.where(empty, INFINITY, lse)
        return torch.where(empty, float("nan"), o), torch.where(empty, float("nan"), lse)


@control("empty-merge", "empty splits merge to NaN")
def empty_merge(gives: str = "nan", splits: int = 4, block: int = 16) -> Kernel:
    """`gives`: nan, or infinity (in the log-sum-exp only)."""
    if gives not in ("nan", "infinity"):
        raise UsageError(f"an empty merge gives nan or infinity, not {gives!r}")
    return honest(EmptyMerge(block=block, splits=splits, gives=gives))
