"""The scale is missing from dQ, or multiplies dK twice.

Shows       anything with a scale other than 1.
Report      kernels that fold the scale into q before the product, and into the gradient once more.
"""

from __future__ import annotations

from verify.controls._control import control, honest_backward
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_backward import FlashBackward


class Unscaled(FlashBackward):
    """dQ = dS K."""

    def query_scale(self, call: Call) -> float:
        return 1.0


class ScaledTwice(FlashBackward):
    """dK = scale^2 dS^T Q."""

    def key_scale(self, call: Call) -> float:
        return call.scale**2


@control("query-unscaled-backward", "dQ without the scale", operation="attention_backward")
def query_unscaled() -> Kernel:
    """Tiles of 16 keys."""
    return honest_backward(Unscaled())


@control("key-scaled-twice-backward", "dK with the scale squared", operation="attention_backward")
def key_scaled_twice() -> Kernel:
    """Tiles of 16 keys."""
    return honest_backward(ScaledTwice())
