"""FlashAttention 2 and 3 (Dao-AILab), on a GPU.

Documented in flash_attn/flash_attn_interface.py: causal aligns to the bottom right corner (from
version 2.1 on), a row whose keys are all masked gives zero, window_size is (left, right) inclusive,
softcap comes before the mask, fewer kv heads are allowed, the log-sum-exp is natural, (batch,
heads, n_q).  Scores, row sum and accumulators are binary32 on tensor cores, P has the input format.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from verify.kernels import kernel
from verify.kernels._cuda import FORMATS, MODEL, on_cuda

Found = Tensor | tuple[Tensor, Tensor]


def _call(function: Any, q: Tensor, k: Tensor, v: Tensor, return_lse: bool, **more: Any) -> Found:
    """(batch, heads, n, d) in and out; the library wants (batch, n, heads, d)."""
    tensors = (x.transpose(1, 2) for x in (q, k, v))
    found = function(*tensors, return_attn_probs=return_lse, **more)
    if not isinstance(found, tuple):
        out: Tensor = found.transpose(1, 2)
        return out
    return (found[0].transpose(1, 2), found[1]) if return_lse else found[0].transpose(1, 2)


@kernel(
    name="flash-attn-2",
    operation="attention",
    summary="flash_attn.flash_attn_func",
    formats=FORMATS,
    devices=("cuda",),
    model=MODEL,
    without=("d_v", "empty"),
    d=(1, 256),
    d_multiple=8,
    unavailable=on_cuda("flash_attn", extra="flash-attn"),
    libraries=("flash-attn",),
    source="flash-attn 2.8: flash_attn/flash_attn_interface.py",
)
def flash_2(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    softcap: float | None = None,
    return_lse: bool = False,
) -> Found:
    """q (batch, heads, n_q, d), k, v (batch, kv_heads, n_k, d)."""
    from flash_attn import flash_attn_func

    return _call(
        flash_attn_func, q, k, v, return_lse,
        softmax_scale=scale, causal=causal, window_size=window or (-1, -1), softcap=softcap or 0.0,
    )  # fmt: skip


def _unavailable_3() -> str | None:
    """It is on no package index: it is built from the source of flash-attention."""
    why = on_cuda("flash_attn_interface", extra="flash-attn", capability=(9, 0))()
    build = "git clone flash-attention; pip install ./hopper"
    return why and why.replace("pip install 'attncert[flash-attn]'", build)


@kernel(
    name="flash-attn-3",
    operation="attention",
    summary="flash_attn_interface.flash_attn_func (Hopper)",
    formats=FORMATS,
    devices=("cuda",),
    model=MODEL,
    without=("d_v", "empty"),
    d=(1, 256),
    d_multiple=8,
    unavailable=_unavailable_3,
    libraries=("flash-attn-3",),
    source="flash-attention hopper/flash_attn_interface.py",
)
def flash_3(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    softcap: float | None = None,
    return_lse: bool = False,
) -> Found:
    """q (batch, heads, n_q, d), k, v (batch, kv_heads, n_k, d)."""
    from flash_attn_interface import flash_attn_func

    return _call(
        flash_attn_func, q, k, v, return_lse,
        softmax_scale=scale, causal=causal, window_size=window or (-1, -1), softcap=softcap or 0.0,
    )  # fmt: skip
