"""Between torch tensors and tinygrad tensors on tinygrad's CPU device, bit for bit (both copy)."""

from __future__ import annotations

import os
import shutil
from typing import Any

import torch
from torch import Tensor

from verify.kernels._installed import needs

_installed = needs("tinygrad", extra="tinygrad")


def missing() -> str | None:
    """Why tinygrad cannot run here, or None; its CPU device compiles C with clang."""
    compiler = os.environ.get("CC", "clang")
    reason = _installed()
    if reason is None and shutil.which(compiler) is None:
        return f"tinygrad's CPU device needs clang (19 works, 14 is too old): no {compiler} found"
    return reason


def _tinygrad() -> Any:
    """tinygrad with the CPU device, which has to be chosen before it is imported.

    It compiles in this process: by default it starts others, which does not pay for small kernels.
    """
    os.environ |= {"DEV": "CPU", "PARALLEL": "0"}
    import tinygrad

    return tinygrad


def array(x: Tensor) -> Any:
    """A tensor as a tinygrad tensor of the same format."""
    tiny = _tinygrad()
    plain = x.detach().contiguous()
    if plain.dtype != torch.bfloat16:
        return tiny.Tensor(plain.numpy(), device="CPU")
    return tiny.Tensor(plain.view(torch.uint16).numpy(), device="CPU").bitcast(tiny.dtypes.bfloat16)


def tensor(x: Any) -> Tensor:
    """A tinygrad tensor, computed, as a tensor of the same format."""
    tiny = _tinygrad()
    done = x.contiguous().realize()
    if done.dtype != tiny.dtypes.bfloat16:
        return torch.from_numpy(done.numpy().copy())
    return torch.from_numpy(done.bitcast(tiny.dtypes.uint16).numpy().copy()).view(torch.bfloat16)
