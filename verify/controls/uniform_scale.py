"""Every output is multiplied by the same factor near 1.

Shows       anything; V = 1 needs no oracle.
Report      flashinfer's "halved output" in NVFP4, which a correlation or cosine gate cannot see.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from verify.controls._control import control, honest
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online


@dataclass(frozen=True)
class UniformScale(Online):
    """O times `factor`."""

    factor: float = 1 - 2.0**-5

    def attend(self, call: Call) -> tuple[Tensor, Tensor]:
        o, lse = super().attend(call)
        return o * self.factor, lse


@control("uniform-scale", "every output 3 % too small")
def uniform_scale(factor: float = 1 - 2.0**-5, block: int = 16) -> Kernel:
    """The `factor`."""
    return honest(UniformScale(block=block, factor=float(factor)))
