"""Kernels of this project on float64 arrays, in this process: to compare, not to certify."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from verify.formats import format_named

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[np.float64]


def stored(x: Array, fmt: str) -> Array:
    """The values as an input of that format holds them."""
    return format_named(fmt).round(x)


def tensor(x: Array, fmt: str) -> Tensor:
    """Stored values as a tensor of the format."""
    import torch

    from verify.tensors_torch import DTYPES

    return torch.from_numpy(np.ascontiguousarray(x)).to(DTYPES[fmt])


def array(x: Tensor) -> Array:
    """The exact values of a tensor."""
    return np.asarray(x.detach().double().numpy(), np.float64)


def attention(spec: str, q: Array, k: Array, v: Array, fmt: str, **options: Any) -> Array:
    """The output of an attention kernel by name; scale None is 1/sqrt(d)."""
    from verify.kernels import find

    function, _ = find(spec)
    options.setdefault("scale", q.shape[-1] ** -0.5)
    return array(function(*(tensor(x, fmt) for x in (q, k, v)), **options))


def rows(spec: str, x: Array, fmt: str) -> Array:
    """The output of a softmax kernel by name."""
    from verify.kernels import find

    function, _ = find(spec)
    return array(function(tensor(x, fmt)))


def rmse(values: Array, truth: Array) -> float:
    """Root of the mean squared difference."""
    return float(np.sqrt(np.mean((values - truth) ** 2)))


def environment() -> dict[str, str]:
    """What the figures depend on."""
    import platform

    import torch

    from verify import __version__

    return {
        "attncert": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
