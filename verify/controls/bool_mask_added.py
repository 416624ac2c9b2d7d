"""A boolean mask is added as 0 and 1, or read the other way round; or the bias is scaled.

Shows       half of the keys masked; a bias of order 4.
Report      https://github.com/pytorch/pytorch/pull/191612 (mask type read wrongly).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.errors import UsageError
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online

KINDS = ("added", "inverted", "scaled-bias")


@dataclass(frozen=True)
class MaskMisread(Online):
    """The mask is added or inverted, or the bias multiplied by the scale."""

    kind: str = "added"

    def visible(
        self,
        q: Tensor,
        k: Tensor,
        causal: bool,
        window: tuple[int, int] | None,
        mask: Tensor | None,
        bias: Tensor | None,
    ) -> Tensor:
        if mask is not None and self.kind != "scaled-bias":
            mask = ~mask if self.kind == "inverted" else None
        return super().visible(q, k, causal, window, mask, bias)

    def prepared(self, q: Tensor, k: Tensor, v: Tensor, *options: object) -> Call:
        scale, causal, window, mask, bias, softcap, sinks = options
        if self.kind == "added" and isinstance(mask, torch.Tensor):
            there = mask.float()
            bias = there if not isinstance(bias, torch.Tensor) else bias.float() + there
        return super().prepared(q, k, v, scale, causal, window, mask, bias, softcap, sinks)  # type: ignore[arg-type]

    def biased(self, t: Tensor, call: Call, keys: slice) -> Tensor:
        if self.kind != "scaled-bias" or call.bias is None:
            return super().biased(t, call, keys)
        return t + call.scale * call.bias[..., keys]


@control("bool-mask-added", "mask added as 0 and 1, inverted, or bias scaled")
def bool_mask_added(kind: str = "added", block: int = 16) -> Kernel:
    """`kind`: added, inverted or scaled-bias."""
    if kind not in KINDS:
        raise UsageError(f"the mask is {', '.join(KINDS)}; not {kind!r}")
    return honest(MaskMisread(block=block, kind=kind))
