"""The plan of the first call with a shape, its scale included, is used for all later ones.

Shows       two calls with the same shapes and two scales, 1x and 3x; the first call is right.
Report      planned kernels whose cache key lacks an attribute (flashinfer's plan and run).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from verify.controls._control import control, honest
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online


@dataclass(frozen=True)
class StalePlan(Online):
    """Remembers the scale of the first call with each shape."""

    plans: dict[Any, float] = field(default_factory=dict)

    def attend(self, call: Call) -> tuple[Tensor, Tensor]:
        key = (call.format, call.q.shape, call.k.shape, call.v.shape)
        return super().attend(replace(call, scale=self.plans.setdefault(key, call.scale)))


@control("stale-plan", "the scale of the first call with a shape is kept")
def stale_plan(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(StalePlan(block=block))
