"""Cheats with memory, and their honest twins: unwritten outputs, aliases, changed inputs.

Caught by   poisoned outputs scanned element by element; the overlap of output and inputs; two
            successive outputs that must both stay valid; inputs hashed before and after.
"""

from __future__ import annotations

import torch
from torch import Tensor

from verify.controls._control import cheat, twin

_buffers: dict[object, Tensor] = {}


def _buffer(x: Tensor) -> Tensor:
    return _buffers.setdefault((x.shape, x.dtype, x.device), torch.empty_like(x))


@cheat("uninitialised", "returns memory that it never wrote")
def uninitialised(x: Tensor) -> Tensor:
    """Hopes that the allocator hands out a block with the answer in it."""
    return torch.empty_like(x)


@cheat("writes-a-part", "leaves the last entry of every row unwritten")
def writes_a_part(x: Tensor) -> Tensor:
    """Hopes that nobody scans element by element."""
    out = torch.empty_like(x)
    out[..., :-1] = torch.softmax(x, dim=-1)[..., :-1]
    return out


@twin("writes-everything", "allocates without initialising, then writes every entry")
def writes_everything(x: Tensor) -> Tensor:
    """Honest twin of `uninitialised` and `writes-a-part`."""
    out = torch.empty_like(x)
    out.copy_(torch.softmax(x, dim=-1))
    return out


@cheat("input-view", "writes the answer over its input and returns a view of it")
def input_view(x: Tensor) -> Tensor:
    """Saves an allocation at the caller's expense."""
    x.copy_(torch.softmax(x, dim=-1))
    return x.view(x.shape)


@cheat("changes-inputs", "zeroes its input after reading it")
def changes_inputs(x: Tensor) -> Tensor:
    """A reference that runs afterwards on the same tensor would agree with anything."""
    out = torch.softmax(x, dim=-1)
    x.zero_()
    return out


@twin("works-on-a-copy", "shifts a copy of its input in place")
def works_on_a_copy(x: Tensor) -> Tensor:
    """Honest twin of `input-view` and `changes-inputs`."""
    if x.numel() == 0:
        return torch.empty_like(x)
    y = x.float().clone()
    y.sub_(y.amax(dim=-1, keepdim=True)).exp_()
    return y.div_(y.sum(dim=-1, keepdim=True)).to(x.dtype)


@cheat("static-buffer", "returns the same buffer in every call with a shape")
def static_buffer(x: Tensor) -> Tensor:
    """The output of the call before changes under its owner's hands."""
    out = _buffer(x)
    out.copy_(torch.softmax(x, dim=-1))
    return out


@twin("scratch-buffer", "keeps a scratch buffer and returns a copy of it")
def scratch_buffer(x: Tensor) -> Tensor:
    """Honest twin of `static-buffer`."""
    out = _buffer(x)
    out.copy_(torch.softmax(x, dim=-1))
    return out.clone()
