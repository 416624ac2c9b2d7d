"""Keys past n_k, up to a whole tile, are zeros whose score is 0, in the backward pass only.

Shows       n_k = 1.5 blocks and every live score -120: exp(0 - LSE) overflows, and times the zeros
            of the padding it is NaN in dQ.
Report      fault 18 of those re-implemented here: https://github.com/NVIDIA/TransformerEngine
            issue 1197 is its forward twin.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from verify.controls._control import control, honest_backward
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_backward import FlashBackward, Gradients


@dataclass(frozen=True)
class ScoresPadding(FlashBackward):
    """The last tile is filled up with zero keys, which are seen.

    keys    how many keys there really are (what the forward pass, which is right, sees)
    """

    keys: int = 0

    def gradients(self, call: Call, do: Tensor, dtype: torch.dtype) -> Gradients:
        n = call.n_k
        more = -n % self.block
        seen = call.visible.expand(*call.visible.shape[:-1], n)
        padded = replace(
            call,
            k=pad(call.k, (0, 0, 0, more)),
            v=pad(call.v, (0, 0, 0, more)),
            visible=pad(seen, (0, more), value=True),
            bias=None if call.bias is None else pad(call.bias, (0, more)),
        )
        found = FlashBackward.gradients(replace(self, keys=n), padded, do, dtype)
        for name in ("dk", "dv"):
            found[name] = found[name][..., :n, :]
        found["ds"] = found["ds"][..., :n]
        return found

    def forward(self, call: Call) -> tuple[Tensor, Tensor]:
        n = self.keys
        bias = None if call.bias is None else call.bias[..., :n]
        visible = call.visible[..., :n]
        k, v = call.k[..., :n, :], call.v[..., :n, :]
        return super().forward(replace(call, k=k, v=v, visible=visible, bias=bias))


@control(
    "padding-scored-zero-backward",
    "keys past n_k count with s = 0 in the backward pass",
    operation="attention_backward",
)
def padding_scored_zero_backward(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest_backward(ScoresPadding(block=block))
