"""Attention in float64 NumPy, written down once more from its definition: for smoke checks only.

The error of a shipped kernel is judged by the suite itself; here it must only be small enough that
no option can have been misread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from verify.kernels._precision import DTYPES

Array = NDArray[np.float64]
U = {"fp16": 2.0**-11, "bf16": 2.0**-8, "fp32": 2.0**-24}


@dataclass(frozen=True)
class Sample:
    """Tensors and options of one call."""

    tensors: dict[str, torch.Tensor]
    options: dict[str, Any]

    def call(self, kernel: Any) -> Any:
        return kernel(**self.tensors, **self.options)


def sample(
    name: str,
    *,
    batch: int = 2,
    heads: int = 4,
    kv_heads: int = 2,
    n_q: int = 5,
    n_k: int = 37,
    d: int = 8,
    d_v: int = 6,
    seed: int = 0,
    **options: Any,
) -> Sample:
    """Standard-normal q, k, v in a format."""
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draw).to(DTYPES[name])

    tensors = {
        "q": normal(batch, heads, n_q, d),
        "k": normal(batch, kv_heads, n_k, d),
        "v": normal(batch, kv_heads, n_k, d_v),
    }
    return Sample(tensors, options)


def _values(x: torch.Tensor) -> Array:
    return x.double().numpy() if x.dtype != torch.bool else x.numpy()


def attention(of: Sample, corner: str = "bottom-right") -> tuple[Array, Array, NDArray[np.bool_]]:
    """(output, log-sum-exp, rows that see no key), (batch, heads, n_q, ...)."""
    q, k, v = (_values(of.tensors[x]) for x in "qkv")
    o = of.options
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, group, axis=1) for x in (k, v))
    n_q, n_k = q.shape[2], k.shape[2]
    scale = q.shape[-1] ** -0.5 if o.get("scale") is None else o["scale"]
    s = scale * np.einsum("bhqd,bhkd->bhqk", q, k)
    if o.get("softcap"):
        s = o["softcap"] * np.tanh(s / o["softcap"])
    if o.get("bias") is not None:
        s = s + _values(o["bias"])
    place = np.arange(n_q)[:, None] + (n_k - n_q if corner == "bottom-right" else 0)
    keys = np.arange(n_k)[None, :]
    if o.get("mask") is not None:
        s = np.where(_values(o["mask"]), s, -np.inf)
    if o.get("causal"):
        s = np.where(keys <= place, s, -np.inf)
    left, right = o.get("window") or (-1, -1)
    if left >= 0:
        s = np.where(keys >= place - left, s, -np.inf)
    if right >= 0:
        s = np.where(keys <= place + right, s, -np.inf)
    sinks = o.get("sinks")
    more = (
        [] if sinks is None else [np.broadcast_to(_values(sinks)[:, None, None], (*s.shape[:3], 1))]
    )
    every = np.concatenate([s, *more], axis=-1)
    with np.errstate(all="ignore"):
        m = every.max(axis=-1, keepdims=True, initial=-np.inf)
        base = np.where(np.isinf(m), 0.0, m)
        total = np.exp(every - base).sum(axis=-1, keepdims=True)
        p = np.exp(s - base) / np.where(total == 0, 1.0, total)
        lse = (base + np.log(total))[..., 0]
    return p @ v, lse, np.isneginf(lse)
