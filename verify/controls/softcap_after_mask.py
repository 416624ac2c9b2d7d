"""The softcap is applied to masked scores: -inf becomes -cap, and the key is seen again.

Shows       a cap of 2 with a mask.
Report      the ONNX Attention operator fixed this order in its text (softcap before the mask).
"""

from __future__ import annotations

from torch import Tensor

from verify.controls._control import control, honest
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online


class CapsLast(Online):
    """scale, bias, mask, then cap tanh(. / cap)."""

    def live_scores(self, call: Call, keys: slice) -> Tensor:
        t = self.biased(self.scaled(call, keys), call, keys)
        return self.capped(self.masked(self.stored(t), call, keys), call.softcap)


@control("softcap-after-mask", "softcap applied to masked scores")
def softcap_after_mask(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(CapsLast(block=block))
