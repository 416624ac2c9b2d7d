"""torch.nn.attention.flex_attention, eager and compiled, on a CPU.

Softcap and bias go into score_mod, masks into a BlockMask; both have the order of operations of the
definition.  The arithmetic, read in torch 2.13:

eager     torch/_higher_order_ops/flex_attention.py: Q and K are converted to binary32; scale,
          score_mod and softmax are binary32; P is normalised and rounded to the input format.
compiled  torch/_inductor/codegen/cpp_flex_attention_template.py: tiles of up to 128 keys, scale in
          binary32, `exp_u20` (documented as 20 ulp), the row sum adds P before it is rounded to the
          input format.  Needs a C++ compiler.

The log-sum-exp is returned as that in base 2 times ln 2 (two roundings more: declared as 'fma').
The compiled kernel cannot return it on a CPU.
torch.compile falls back to eager silently after a number of masks; here its memory is cleared
before each call, and hitting the limit is an error.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from verify.kernels import kernel
from verify.kernels._precision import DTYPES
from verify.kernels.torch_sdpa import BINARY32, flash_model

SOURCE = (
    "torch 2.13 torch/_higher_order_ops/flex_attention.py, "
    "torch/_inductor/codegen/cpp_flex_attention_template.py"
)
Mod = Callable[..., Tensor]


def eager_model(name: str) -> dict[str, Any]:
    """Binary32 scores and softmax; P normalised, in the input format."""
    return {
        "name": "torch-flex-eager",
        "input": name,
        "output": name,
        "qk": BINARY32,
        "pv": BINARY32,
        "exponential": "fma",  # 'difference' in truth; 'fma' allows for the base of the LSE
        "p_format": name,
        "p_normalised": True,
        "block": None,
        "flush_to_zero": name == "bf16",  # oneDNN's matrix products
    }


def compiled_model(name: str) -> dict[str, Any]:
    """The flash loop of the template."""
    return flash_model(name) | {"name": "torch-flex-compiled", "block": 128}


def removing(
    q: Tensor, k: Tensor, causal: bool, window: tuple[int, int] | None, mask: Tensor | None
) -> Any:
    """The BlockMask of a call, or None where every query sees every key."""
    from torch.nn.attention.flex_attention import create_block_mask

    if not causal and window is None and mask is None:
        return None
    (batch, heads, n_q, _), n_k = q.shape, k.shape[2]
    corner = n_k - n_q
    left, right = window or (-1, -1)
    wide = None if mask is None else mask.expand(batch, heads, n_q, n_k).contiguous()

    def visible(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        seen = (j >= 0) if wide is None else wide[b, h, i, j]
        place = i + corner
        if causal:
            seen = seen & (j <= place)
        if left >= 0:
            seen = seen & (j >= place - left)
        if right >= 0:
            seen = seen & (j <= place + right)
        return seen

    return create_block_mask(visible, batch, heads, n_q, n_k, device=str(q.device))


def changing(q: Tensor, k: Tensor, softcap: float | None, bias: Tensor | None) -> Mod | None:
    """The score_mod of a call, or None."""
    if softcap is None and bias is None:
        return None
    shape = (*q.shape[:3], k.shape[2])
    wide = None if bias is None else bias.expand(shape).contiguous()

    def changed(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        if softcap is not None:
            score = softcap * torch.tanh(score / softcap)
        return score if wide is None else score + wide[b, h, i, j]

    return changed


def call(
    run: Callable[..., Any],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float | None,
    return_lse: bool,
    score_mod: Mod | None,
    block_mask: Any,
) -> Any:
    """The output, or (output, LSE)."""
    from torch.nn.attention.flex_attention import AuxRequest

    more = {"return_aux": AuxRequest(lse=True)} if return_lse else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # eager warns that it is not fused
        answer = run(
            q,
            k,
            v,
            score_mod=score_mod,
            block_mask=block_mask,
            scale=scale,
            enable_gqa=q.shape[1] != k.shape[1],
            **more,
        )
    return (answer[0], answer[1].lse) if return_lse else answer


def uncompiled() -> str | None:
    """Why the compiled kernel cannot run here, or None."""
    if shutil.which("g++") or shutil.which("clang++"):
        return None
    return "torch.compile needs a C++ compiler on the CPU: install g++"


@kernel(
    name="torch-flex-attention",
    operation="attention",
    summary="torch flex_attention, eager",
    devices=("cpu",),
    model={name: eager_model(name) for name in DTYPES},
    masked_nonfinite="leaks",
    without=("empty",),
    libraries=("torch",),
    source=SOURCE,
)
def eager(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    softcap: float | None = None,
    return_lse: bool = False,
) -> Any:
    """q (batch, heads, n_q, d), k (batch, kv_heads, n_k, d), v (batch, kv_heads, n_k, d_v)."""
    from torch.nn.attention.flex_attention import flex_attention

    removed = removing(q, k, causal, window, mask)
    changed = changing(q, k, softcap, bias)
    return call(flex_attention, q, k, v, scale, return_lse, changed, removed)


@kernel(
    name="torch-flex-attention-compiled",
    operation="attention",
    summary="torch flex_attention under torch.compile",
    devices=("cpu",),
    model={name: compiled_model(name) for name in DTYPES},
    masked_nonfinite="leaks",
    without=("empty",),
    unavailable=uncompiled,
    libraries=("torch",),
    source=SOURCE,
)
def compiled(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    softcap: float | None = None,
) -> Any:
    """The same call, compiled anew each time."""
    from torch.nn.attention.flex_attention import flex_attention

    torch._dynamo.reset()
    removed = removing(q, k, causal, window, mask)
    changed = changing(q, k, softcap, bias)
    with torch._dynamo.config.patch(fail_on_recompile_limit_hit=True):
        run = torch.compile(flex_attention, dynamic=False)
        return call(run, q, k, v, scale, False, changed, removed)
