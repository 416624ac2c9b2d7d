"""Keys that stand in the cache twice are counted once.

Shows       any repeated key: its weight is that of one copy.
Report      none known: deduplicated prefixes are the temptation.
"""

from __future__ import annotations

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online


def repeated(keys: Tensor) -> Tensor:
    """True for each of the (n, d) rows that is equal to an earlier one."""
    _, group = torch.unique(keys, dim=0, return_inverse=True)
    place = torch.arange(len(keys), device=keys.device)
    first = torch.full((len(keys),), len(keys), device=keys.device)
    first = first.scatter_reduce(0, group, place, "amin")
    return first[group] < place


class MergesEqualKeys(Online):
    """Every copy of a key but the first is hidden, its value with it."""

    def attend(self, call: Call) -> tuple[Tensor, Tensor]:
        if 0 in call.k.shape:
            return super().attend(call)
        flat = call.k.reshape(-1, *call.k.shape[-2:])
        hidden = torch.stack([repeated(keys) for keys in flat]).reshape(call.k.shape[:-1])
        seen = call.visible & ~hidden.unsqueeze(-2)
        return super().attend(Call(**{**vars(call), "visible": seen}))


@control("merges-equal-keys", "equal keys count once")
def merges_equal_keys(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(MergesEqualKeys(block=block))
