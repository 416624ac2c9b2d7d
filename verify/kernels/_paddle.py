"""Between torch tensors and Paddle's tensors on the CPU (both copy)."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from verify.kernels._installed import needs

missing = needs("paddle", extra="paddle")


def library() -> Any:
    """paddle, which warns at its import where ccache is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import paddle
    return paddle


def array(x: Tensor) -> Any:
    """A tensor as Paddle's on the CPU."""
    paddle = library()
    return paddle.to_tensor(x.detach().contiguous().numpy(), place=paddle.CPUPlace())


def tensor(x: Any) -> Tensor:
    """Paddle's tensor as one of torch with storage of its own."""
    return torch.from_numpy(x.numpy().copy())
