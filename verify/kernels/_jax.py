"""JAX on the CPU: torch tensors in and out."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from verify.kernels._arrays import array, tensor
from verify.kernels._installed import needs

missing = needs("jax", "jaxlib", extra="jax")


def to_jax(x: Tensor | None) -> Any:
    """The same numbers as a JAX array."""
    import jax

    return None if x is None else jax.numpy.asarray(array(x))


def from_jax(x: Any) -> Tensor:
    """The same numbers as a torch tensor with storage of its own."""
    return tensor(x)
