"""Unusual but right backward passes: other tiles, another order, automatic differentiation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from verify.controls._control import honest_backward, right
from verify.declaration import declare
from verify.kernels._attention import Attention, Kernel, TwoPass
from verify.kernels._attention_backward import FlashBackward, Saved
from verify.kernels._attention_tiled import Online

OPERATION = "attention_backward"


@right("wide-tiles-backward", "tiles of 32 keys and 48 queries, undeclared", OPERATION)
def wide_tiles() -> Kernel:
    """Held to the default of its format."""
    return honest_backward(FlashBackward(48, 32, steps=Online(block=32)))


class AnyOrder(FlashBackward):
    """Tiles in an order that is drawn anew: what atomic additions do."""

    def tiles(self, n: int, length: int) -> Iterator[slice]:
        starts = torch.randperm(-(-n // length)) * length
        for start in starts.tolist():
            yield slice(start, min(start + length, n))


@right("atomic-order-backward", "gradients added in a random order", OPERATION)
def atomic_order() -> Kernel:
    """Equal calls give other bits; nothing else is declared."""
    return AnyOrder().kernel(rounding="nearest")


@dataclass(frozen=True)
class FromProbabilities(FlashBackward):
    """D = sum P dP, and dS = P dP - P D, all keys at once."""

    def score_gradient(self, p: Tensor, dp: Tensor, saved: Saved) -> Tensor:
        if p.shape[-1] == 1:
            return super().score_gradient(p, dp, saved)
        return p * dp - p * (p * dp).sum(dim=-1, keepdim=True)


@right("delta-from-probabilities-backward", "D = sum P dP, undeclared", OPERATION)
def delta_from_probabilities() -> Kernel:
    """One tile; P by division, as a two-pass kernel keeps it."""

    class Kept(FromProbabilities):
        """P of the forward pass."""

        def probabilities(self, s: Tensor, saved: Saved) -> Tensor:
            p = torch.softmax(s, dim=-1)
            return torch.where(torch.isnan(p), 0.0, p)

    return honest_backward(Kept(2**30, 2**30, steps=TwoPass()), without=("sinks",))


def _autograd(algorithm: Attention) -> Kernel:
    """The gradients of a forward kernel's steps, as a kernel of the backward operation."""
    forward = algorithm.kernel()

    @declare(operation=OPERATION, model=None)
    def attention_backward(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        do: Tensor,
        *,
        scale: float | None = None,
        causal: bool = False,
        mask: Tensor | None = None,
        softcap: float | None = None,
    ) -> tuple[Tensor, ...]:
        """dq, dk, dv by torch.autograd."""
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        with torch.enable_grad():
            out = forward(*leaves, scale=scale, causal=causal, mask=mask, softcap=softcap)
        return torch.autograd.grad(out, leaves, do)

    return attention_backward


@right("autograd-online-backward", "automatic differentiation of flash, undeclared", OPERATION)
def autograd_online() -> Kernel:
    """Every rescale is differentiated."""
    return _autograd(Online())


@right("autograd-two-pass-backward", "automatic differentiation of two passes", OPERATION)
def autograd_two_pass() -> Kernel:
    """P is normalised and kept."""
    return _autograd(TwoPass())


@right("eager-backward", "tensor operations in the input format, declared eager", OPERATION)
def eager() -> Kernel:
    """Scores, P and every step of the gradient are stored in the input format."""

    # torch's bf16 products on a CPU with bf16 units read subnormals as zero
    models = {"fp16": "eager", "bf16": "eager+ftz", "fp32": "eager"}

    @declare(operation=OPERATION, model=models, without=("gqa",))
    def attention_backward(
        q: Tensor, k: Tensor, v: Tensor, do: Tensor, *, scale: float
    ) -> tuple[Tensor, ...]:
        """dq, dk, dv by torch.autograd."""
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        with torch.enable_grad():
            s = torch.matmul(leaves[0], leaves[1].transpose(-2, -1)) * scale
            out = torch.matmul(torch.softmax(s, dim=-1), leaves[2])
        return torch.autograd.grad(out, leaves, do)

    return attention_backward
