"""Unusual but right: how the keys are cut into tiles and in which order they are visited."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from verify.controls._control import right
from verify.kernels._attention import INFINITY, Call, Kernel
from verify.kernels._attention_tiled import Online, Split, State


@right("sixteen-key-blocks", "tiles of 16 keys")
def sixteen_key_blocks() -> Kernel:
    """The smallest tile of the undeclared models."""
    return Online(block=16).kernel(deterministic=True, one_key_exact=True)


@right("one-block", "one single tile")
def one_block() -> Kernel:
    """All keys in one tile."""
    return Online(block=2**30).kernel(deterministic=True, one_key_exact=True)


@right("reverse-keys", "tiles visited from the last to the first")
def reverse_keys(block: int = 16) -> Kernel:
    """Tiles of `block` keys, the last one first."""
    return Online(block=block, order="reverse").kernel(deterministic=True, one_key_exact=True)


@right("more-splits-than-keys", "split-KV with 64 splits")
def more_splits_than_keys(splits: int = 64, block: int = 16) -> Kernel:
    """Most splits of a short row are empty."""
    return Split(block=block, splits=splits).kernel(deterministic=True, one_key_exact=True)


class SkipsMasked(Online):
    """A tile without visible keys is not computed."""

    def tile(self, state: State, call: Call, keys: slice) -> State:
        seen = call.visible[..., keys]
        return super().tile(state, call, keys) if bool(seen.any()) else state


@right("skips-masked-blocks", "fully masked tiles are skipped")
def skips_masked_blocks(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return SkipsMasked(block=block).kernel(deterministic=True, one_key_exact=True)


@dataclass(frozen=True)
class Lazy(Online):
    """Rescales only where the maximum has risen by more than `threshold` (in log2)."""

    threshold: float = 8.0

    def new_maximum(self, m: Tensor, s: Tensor) -> Tensor:
        new = super().new_maximum(m, s)
        lag = self.threshold * math.log(2)
        return torch.where((m > -INFINITY) & (new - m <= lag), m, new)

    def model(self, name: str) -> dict[str, Any]:
        return super().model(name) | {"lazy": self.threshold}


@right("lazy-rescale", "rescale put off until the maximum has risen by 2^8")
def lazy_rescale(threshold: float = 8.0, block: int = 16) -> Kernel:
    """P reaches 2^threshold, in P V and in the row sum alike."""
    lazy = Lazy(block=block, threshold=float(threshold))
    return lazy.kernel(deterministic=True, one_key_exact=True)


class BatchDependent(Online):
    """Tiles three times as long for an odd batch."""

    def attend(self, call: Call) -> tuple[Tensor, Tensor]:
        longer = replace(self, block=self.block * (1 + 2 * (call.q.shape[0] % 2)))
        return Online.attend(longer, call)


@right("not-batch-invariant", "accurate, with tiles that depend on the batch")
def not_batch_invariant(block: int = 16) -> Kernel:
    """Bits of a row depend on the batch around it; batch invariance is not declared."""
    return BatchDependent(block=block).kernel(deterministic=True, one_key_exact=True)
