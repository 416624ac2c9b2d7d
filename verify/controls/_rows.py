"""Online softmax along the last axis as a row of small steps; a control overrides one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from verify.controls._control import CLAIMS
from verify.declaration import declare
from verify.kernels._attention import INFINITY, Kernel


@dataclass(frozen=True)
class Rows:
    """Tiles of `block` entries with a running maximum and sum, then exp(x - m) / l."""

    block: int = 16

    def tiles(self, n: int) -> Iterator[slice]:
        for start in range(0, n, self.block):
            yield slice(start, min(start + self.block, n))

    def entries(self, x: Tensor) -> Tensor:
        return x.float()

    def first_maximum(self, y: Tensor) -> Tensor:
        return torch.full((*y.shape[:-1], 1), -INFINITY, device=y.device)

    def new_maximum(self, m: Tensor, tile: Tensor) -> Tensor:
        return torch.maximum(m, tile.amax(dim=-1, keepdim=True))

    def correction(self, m: Tensor, new: Tensor) -> Tensor:
        return torch.exp(m - torch.where(new == -INFINITY, 0.0, new))

    def exponential(self, x: Tensor) -> Tensor:
        return torch.exp(x)

    def added(self, l: Tensor, e: Tensor, x: Tensor) -> Tensor:  # noqa: E741
        return l + e.sum(dim=-1, keepdim=True)

    def stored(self, p: Tensor, dtype: torch.dtype) -> Tensor:
        return p.to(dtype)

    def softmax(self, x: Tensor) -> Tensor:
        """x (rows, n)."""
        y = self.entries(x)
        m = self.first_maximum(y)
        l = torch.zeros_like(m)  # noqa: E741
        for part in self.tiles(y.shape[-1]):
            new = self.new_maximum(m, y[..., part])
            e = self.exponential(y[..., part] - torch.where(new == -INFINITY, 0.0, new))
            l = self.added(l * self.correction(m, new), e, x)  # noqa: E741
            m = new
        return self.stored(self.exponential(y - m) / l, x.dtype)

    def kernel(self, **claims: Any) -> Kernel:
        def softmax(x: Tensor) -> Tensor:
            return self.softmax(x)

        softmax.__doc__ = type(self).__doc__
        return declare(operation="softmax", **CLAIMS | {"one_key_exact": False} | claims)(softmax)
