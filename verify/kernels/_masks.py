"""One mask out of causal, a boolean mask and a bias, for operators that take a single tensor."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Corner = Literal["top-left", "bottom-right"]
REMOVED = float("-inf")


def one_mask(
    q: Tensor,
    k: Tensor,
    causal: bool,
    mask: Tensor | None,
    bias: Tensor | None,
    corner: Corner = "top-left",
) -> Tensor | None:
    """
    What an operator is handed that takes causal alone, or a boolean mask, or an additive one.

    Shapes      q (..., n_q, d), k (..., n_k, d); mask and bias as in `attention`; returns 4 axes.
    Special     None where there is neither mask nor bias: then the operator is told `causal`.
    """
    if mask is None and bias is None:
        return None
    return joined(seen(q, k, mask, corner) if causal else mask, bias)


def seen(q: Tensor, k: Tensor, mask: Tensor | None, corner: Corner) -> Tensor:
    """Causal, (n_q, n_k), and what `mask` leaves of it; bottom-right: the last query sees all."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    offset = 0 if corner == "top-left" else n_k - n_q
    causal = torch.ones(n_q, n_k, dtype=torch.bool, device=q.device).tril(offset)
    return causal if mask is None else mask & causal


def joined(mask: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """The bias with -inf where the mask removes; with one of them, that one; 4 axes."""
    if mask is None or bias is None:
        return with_four_axes(bias if mask is None else mask)
    return with_four_axes(torch.where(mask, bias, REMOVED))


def numbers(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where a boolean mask keeps a key, -inf where it removes one."""
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, REMOVED)


def with_four_axes(x: Tensor | None) -> Tensor | None:
    """A mask or bias with leading axes of length 1."""
    return None if x is None else x.reshape(*[1] * (4 - x.dim()), *x.shape)
