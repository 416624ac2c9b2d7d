"""Gradients of a forward kernel by torch.autograd: what makes a backward kernel of it.

Lives in the worker.  What it certifies is the kernel's own backward pass where it has one, and the
automatic differentiation of its steps where it has none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from verify.errors import KernelError
from verify.operation import ARGUMENTS, FORWARD


def gradients_of(function: Callable[..., Any], operation: str) -> Callable[..., tuple[Tensor, ...]]:
    """The backward operation of a forward kernel.

    Shapes      the result takes what the forward kernel takes and the gradient of its output, and
                returns the gradients named in `wanted`, in that order.
    Special     an input that the output does not depend on has gradient 0.
    Raises      KernelError where autograd knows no way from the output to the inputs.
    """
    names = ARGUMENTS[FORWARD[operation]]  # type: ignore[index]

    def backward(*tensors: Tensor, wanted: tuple[str, ...], **keywords: Any) -> tuple[Tensor, ...]:
        *inputs, upstream = tensors
        given = {**dict(zip(names, inputs, strict=True)), **keywords}
        leaves = {name: given[name].detach().requires_grad_() for name in (w[1:] for w in wanted)}
        given |= leaves
        positional = [given.pop(name) for name in names]
        with torch.enable_grad():
            out = function(*positional, **given)
        out = out[0] if isinstance(out, (tuple, list)) else out
        if not isinstance(out, Tensor) or not out.requires_grad:
            raise KernelError("the output carries no gradient: autograd cannot differentiate this")
        found = torch.autograd.grad(out, list(leaves.values()), upstream, allow_unused=True)
        return tuple(
            torch.zeros_like(leaf) if grad is None else grad
            for grad, leaf in zip(found, leaves.values(), strict=True)
        )

    return backward
