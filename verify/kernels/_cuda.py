"""Adapters of GPU libraries: ready to run where there is a device, listed with the reason here.

They were written from the libraries' documentation and have not been run by this project yet; the
machine on which a report is made decides whether what they declare holds.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from verify.kernels._installed import needs
from verify.kernels.torch_sdpa import tensor_core_model

FORMATS = ("fp16", "bf16")
MODEL = {name: tensor_core_model() for name in FORMATS}


def on_cuda(
    *packages: str, extra: str, capability: tuple[int, int] = (8, 0)
) -> Callable[[], str | None]:
    """For `unavailable`: a missing package (with the command), or a missing or older device."""
    missing = needs(*packages, extra=extra)

    def reason() -> str | None:
        why = missing()
        if not torch.cuda.is_available():
            return f"{why}; and no CUDA device" if why else "no CUDA device"
        if why is None and torch.cuda.get_device_capability() < capability:
            return f"needs compute capability {capability[0]}.{capability[1]} or newer"
        return why

    return reason
