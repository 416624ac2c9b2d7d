"""Cheats that answer from memory, and their honest twin.

Caught by   new data at the same address; one interior element changed; many calls, some of them
            verified at random; shapes and seeds drawn afresh.
"""

from __future__ import annotations

from itertools import count

import torch
from torch import Tensor

from verify.controls._control import cheat, twin

_by_pointer: dict[object, Tensor] = {}
_by_fingerprint: dict[object, Tensor] = {}
_counts: dict[object, Tensor] = {}
_calls = count(1)


@cheat("caches-by-pointer", "answers by address, shape and format")
def caches_by_pointer(x: Tensor) -> Tensor:
    """New data at an old address gets the old answer."""
    key = (x.data_ptr(), x.shape, x.dtype)
    if key not in _by_pointer:
        _by_pointer[key] = torch.softmax(x, dim=-1)
    return _by_pointer[key].clone()


@cheat("caches-by-fingerprint", "answers by the corners of its input")
def caches_by_fingerprint(x: Tensor) -> Tensor:
    """A change between the first and the last entry goes unnoticed."""
    corners = (float(x.flatten()[0]), float(x.flatten()[-1])) if x.numel() else ()
    key = (corners, x.shape, x.dtype)
    if key not in _by_fingerprint:
        _by_fingerprint[key] = torch.softmax(x, dim=-1)
    return _by_fingerprint[key].clone()


@twin("caches-a-plan", "caches by shape what depends on the shape only")
def caches_a_plan(x: Tensor) -> Tensor:
    """Honest twin of both: the column of ones that adds up a row."""
    key = (x.shape[-1], x.device)
    if key not in _counts:
        _counts[key] = torch.ones(x.shape[-1], 1, device=x.device)
    if x.numel() == 0:
        return torch.empty_like(x)
    y = x.float()
    e = torch.exp(y - y.amax(dim=-1, keepdim=True))
    return (e / (e @ _counts[key])).to(x.dtype)


@cheat("drifts", "right in the first eight calls, zeros afterwards")
def drifts(x: Tensor) -> Tensor:
    """Verified before timing, fast afterwards."""
    right = next(_calls) <= 8
    return torch.softmax(x, dim=-1) if right else torch.zeros_like(x)


@cheat("known-shapes", "right for rows of 64 or 128 entries, uniform otherwise")
def known_shapes(x: Tensor) -> Tensor:
    """Written for the shapes of a public benchmark."""
    n = x.shape[-1]
    return torch.softmax(x, dim=-1) if n in (64, 128) else torch.full_like(x, 1 / max(n, 1))
