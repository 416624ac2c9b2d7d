"""What lies past a limit of one axis repeats the last entry before it.

Shows       more queries, heads, sequences, keys or rows than the limit.
Report      https://github.com/pytorch/pytorch/issues/146704 (a batch of 65536; that one raises).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from verify.controls._control import control, honest
from verify.controls._rows import Rows
from verify.errors import UsageError
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online

AXES = {"batch": 0, "heads": 1, "queries": 2}


def _cut(x: Tensor, axis: int, most: int) -> Tensor:
    places = torch.arange(x.shape[axis], device=x.device).clamp(max=most - 1)
    return x.index_select(axis, places)


@dataclass(frozen=True)
class AxisCut(Online):
    """The queries past `most` along an axis are taken for the last before them."""

    axis: str = "queries"
    most: int = 1024

    def prepared(self, q: Tensor, k: Tensor, v: Tensor, *options: Any) -> Call:
        return super().prepared(_cut(q, AXES[self.axis], self.most), k, v, *options)


@dataclass(frozen=True)
class KeysCut(Online):
    """The keys past `most` are not visited."""

    most: int = 8192

    def visible(self, q: Tensor, k: Tensor, *options: Any) -> Tensor:
        near = torch.arange(k.shape[-2], device=k.device) < self.most
        return super().visible(q, k, *options) & near


@dataclass(frozen=True)
class RowsCut(Rows):
    """The rows past `most` are taken for the last before them."""

    most: int = 4096

    def entries(self, x: Tensor) -> Tensor:
        return _cut(super().entries(x), 0, self.most)


@control("axis-cut", "what lies past a limit of one axis repeats what lies before it")
def axis_cut(axis: str = "queries", most: int = 1024, block: int = 16) -> Kernel:
    """`axis`: batch, heads, queries or keys (these are left out); `most`: its limit."""
    if axis == "keys":
        return honest(KeysCut(block=block, most=most))
    if axis not in AXES:
        raise UsageError(f"unknown axis {axis!r}; known: {', '.join(AXES)}, keys")
    return honest(AxisCut(block=block, axis=axis, most=most))


@control("axis-cut-softmax", "rows past a limit repeat the last before it", "softmax")
def axis_cut_softmax(most: int = 4096, block: int = 16) -> Kernel:
    """`most`: the limit."""
    return RowsCut(block=block, most=most).kernel()
