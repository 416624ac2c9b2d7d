"""Slices of p on a torch device, and their sums over the keys.

docs/theory/fast-oracle.md, parts 4, 5 and 9.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from references.fast.device_pairs import tree_sum, two_sum
from references.fast.prepared import CHUNK


@dataclass(frozen=True)
class Dense:
    """A `Cut` with its list spread out; middle, tail and rest are None where the list is empty."""

    head: Tensor
    middle: Tensor | None
    tail: Tensor | None
    rest: Tensor | None


@dataclass(frozen=True)
class Moved:
    """One kv head's K and V on a device, keys padded with zeros to whole chunks.

    Shapes      keys: (n, d); values, size = |v|: (n, d_v).
    """

    keys: Dense
    values: Dense
    size: Tensor


def cut_weights(ph: Tensor, pl: Tensor, bits: int, slices: int) -> tuple[list[Tensor], Tensor]:
    """p in slices (rows, keys), and their sums (6, rows) as `weights.cut_weights` gives them."""
    rounders = [1.5 * 2.0 ** (52 - bits)]
    rounders += [1.5 * 2.0 ** (51 - m * bits) for m in range(2, slices)]
    parts = [(ph + rounders[0]) - rounders[0]]
    r = ph - parts[0]
    for rounder in rounders[1:]:
        parts.append(((r + pl) + rounder) - rounder)
        r = r - parts[-1]
    parts.append(r + pl)
    high, low = tree_sum(parts[-1])
    exact = [x.sum(dim=1) for x in parts[:-1]]
    exact += [torch.zeros_like(high)] * (3 - len(exact))
    return parts, torch.stack([*exact, high, low, parts[-1].abs().sum(dim=1)])


def sums_over_keys(parts: list[Tensor], ph: Tensor, moved: Moved) -> tuple[Tensor, Tensor, Tensor]:
    """N = h + low and A, (rows, d_v) each."""
    listed = moved.values
    exact = [_by_chunk(p, listed.head) for p in parts[:-1]]
    rounded = [_by_chunk(parts[-1], listed.head)]
    sums = [tree_sum(c) for c in exact]
    if listed.middle is not None and listed.tail is not None and listed.rest is not None:
        before = parts[0] if len(parts) == 3 else parts[0] + parts[1]
        after = parts[-2] + parts[-1]
        chosen = parts[:1] if len(parts) == 3 else parts[:2]
        sums += [(p @ listed.middle, torch.zeros_like(sums[0][0])) for p in chosen]
        rounded += [_by_chunk(before, listed.tail) + _by_chunk(after, listed.rest)]
    h, low = sums[0]
    for high, more in sums[1:]:
        h, error = two_sum(h, high)
        low = low + (error + more)
    for c in rounded:
        high, more = tree_sum(c)
        low = low + (high + more)
    return h, low, ph @ moved.size


def _by_chunk(p: Tensor, v: Tensor) -> Tensor:
    """(rows, d_v, chunks): the products over each chunk of keys."""
    rows, n = p.shape
    apart = p.reshape(rows, n // CHUNK, CHUNK).transpose(0, 1)
    return (apart @ v.reshape(n // CHUNK, CHUNK, v.shape[1])).permute(1, 2, 0)
