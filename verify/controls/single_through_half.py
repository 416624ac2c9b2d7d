"""A binary32 kernel whose products take operands of fewer bits.

Shows       any binary32 input: errors of 2^-9 (bf16), 2^-11 (tf32, fp16) in P V.
Report      https://github.com/ml-explore/mlx/issues/3953; TF32 by default in onnxruntime.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.errors import UsageError
from verify.kernels._attention import Kernel
from verify.kernels._attention_tiled import Online
from verify.kernels._precision import rounded


def cut(x: Tensor, through: str) -> Tensor:
    """x with fewer bits: rounded to bf16 or fp16, or truncated to tf32."""
    if through != "tf32":
        return rounded(x, through)
    return (x.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)


@dataclass(frozen=True)
class ThroughHalf(Online):
    """Operands of Q K^T and P V with fewer bits."""

    through: str = "bf16"

    def product(self, q: Tensor, k: Tensor) -> Tensor:
        return super().product(cut(q, self.through), cut(k, self.through))

    def weighted(self, p: Tensor, v: Tensor, live: Tensor) -> Tensor:
        return super().weighted(cut(p, self.through), cut(v, self.through), live)


@control("single-through-half", "products of bf16 or tf32 operands", formats=("fp32",))
def single_through_half(through: str = "bf16", block: int = 16) -> Kernel:
    """`through`: bf16, fp16 or tf32."""
    if through not in ("bf16", "fp16", "tf32"):
        raise UsageError(f"operands go through bf16, fp16 or tf32, not {through!r}")
    return honest(ThroughHalf(block=block, through=through))
