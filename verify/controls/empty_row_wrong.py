"""A row without keys gives NaN, or the mean of V, where 0 is declared.

Shows       empty rows at the start, in the middle and at the end of a tile.
Report      https://github.com/pytorch/pytorch/issues/41508 (NaN); finite sentinels give the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.errors import UsageError
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online


@dataclass(frozen=True)
class EmptyRowWrong(Online):
    """Rows without keys are NaN or the mean of V."""

    gives: str = "nan"

    def attend(self, call: Call) -> tuple[Tensor, Tensor]:
        o, lse = super().attend(call)
        mean = call.v.mean(dim=-2, keepdim=True)
        wrong = torch.full_like(mean, float("nan")) if self.gives == "nan" else mean
        return torch.where(lse == -float("inf"), wrong, o), lse


@control("empty-row-wrong", "an empty row gives NaN or the mean of V")
def empty_row_wrong(gives: str = "nan", block: int = 16) -> Kernel:
    """`gives`: nan or mean."""
    if gives not in ("nan", "mean"):
        raise UsageError(f"an empty row gives nan or mean, not {gives!r}")
    return honest(EmptyRowWrong(block=block, gives=gives))
