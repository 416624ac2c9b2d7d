"""Inputs are walked as if they were contiguous, a broadcast axis as if it were dense.

Shows       a transposed (2, 3, 5) tensor; an expanded mask.
"""

from __future__ import annotations

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online


def walked(x: Tensor) -> Tensor:
    """The elements that follow x's first one in memory, in x's shape."""
    memory = torch.empty(0, dtype=x.dtype, device=x.device).set_(x.untyped_storage())
    if memory.numel() == 0:
        return x
    places = torch.arange(x.numel(), device=x.device) + x.storage_offset()
    return memory[places % memory.numel()].reshape(x.shape)


class IgnoresStrides(Online):
    """Reads memory in its order."""

    def prepared(self, q: Tensor, k: Tensor, v: Tensor, *options: object) -> Call:
        read = [walked(o) if isinstance(o, torch.Tensor) else o for o in options]
        return super().prepared(walked(q), walked(k), walked(v), *read)  # type: ignore[arg-type]


class IgnoresExtraStrides(Online):
    """Reads masks and biases in the order of memory, and nothing else."""

    def prepared(self, q: Tensor, k: Tensor, v: Tensor, *options: object) -> Call:
        read = [walked(o) if isinstance(o, torch.Tensor) else o for o in options]
        return super().prepared(q, k, v, *read)  # type: ignore[arg-type]


@control("ignores-strides", "inputs walked as contiguous")
def ignores_strides(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(IgnoresStrides(block=block))


@control("ignores-extra-strides", "mask and bias walked as contiguous")
def ignores_extra_strides(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(IgnoresExtraStrides(block=block))
