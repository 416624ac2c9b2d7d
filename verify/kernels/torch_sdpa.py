"""torch.nn.functional.scaled_dot_product_attention, one kernel for each backend.

torch's is_causal has the top-left corner, which these kernels declare; it takes no mask beside it,
so a causal call with a mask or bias passes both as one mask.  NaN under a mask leaks (0 NaN = NaN).

The arithmetic, read in aten/src/ATen/native/transformers/attention.cpp and
native/cpu/FlashAttentionKernel.cpp and confirmed by experiment on torch 2.13 with AVX-512:

math    16-bit inputs are converted to binary32; both operands are multiplied by sqrt(scale); P is
        normalised and stays in binary32; the result is rounded once.  (Confirmed bit for bit.)
flash   on a CPU: tiles of 512 keys, scale applied to the scores in binary32, the row sum adds
        unrounded P, P rounded to the input format.  With AVX-512 the exponential is `exp_u20` for
        binary32 (documented as 20 ulp; zero from exp(-86.99) on) and `fexp_u20` for 16-bit inputs:
        its relative error was measured as up to 1840 u of binary32, 1.1e-4 (declared: 2^-13).
default flash where d_v = d, else math: either model.

Backward.  math is differentiated step by step, all in binary32 (P is kept; D = sum P dP).  flash
forms P again from the stored log-sum-exp and D from the stored output, with exp of at most 1 ulp;
P and dS are rounded to the input format, and dQ, dK, dV lie in memory in that format while they
grow: dK and dV are rounded after every 32 queries (64 from 192 queries on, 256 from 768), dQ after
every 512 keys.  kv heads of a group are repeated before the call, so that their gradients are added
in the input format.  A mask that needs a gradient makes torch leave flash.

On CUDA, flash and cuDNN take 16-bit inputs and no mask here; flash, efficient and cuDNN follow the
tensor-core presets.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from verify.kernels import kernel
from verify.kernels._masks import joined, numbers, one_mask, seen
from verify.kernels._precision import DTYPES

SOURCE = "pytorch aten/src/ATen/native/transformers/attention.cpp, cpu/FlashAttentionKernel.cpp"
EVERY_BACKEND = [
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.MATH,
]
BINARY32 = {"format": "fp32", "mode": "RN"}


def math_model(name: str) -> dict[str, Any]:
    """Everything in binary32 between the input and one rounding of the output."""
    return {
        "name": "torch-sdpa-math",
        "input": name,
        "output": name,
        "qk": BINARY32,
        "pv": BINARY32,
        "scale_position": "both",
        "scaled_operands": "fp32",
        "p_format": "fp32",
        "p_normalised": True,
        "block": None,
        "backward_p": "kept",
        "delta": "probabilities",
        "gradient_scale": "operands",
    }


def flash_model(name: str, scale_position: str = "scores") -> dict[str, Any]:
    """Tiles of 512 keys, a fast exponential that flushes to zero."""
    exponential = {"exp_ulps": 20.0} if name == "fp32" else {"exp_relative": 2.0**-13}
    return {
        "name": "torch-sdpa-flash",
        "input": name,
        "output": name,
        "qk": BINARY32,
        "pv": BINARY32,
        "scale_position": scale_position,
        "scaled_operands": "fp32",
        "p_format": name,
        "block": 512,
        "gradient_block": (32, 512),
        "group_format": name,
        "flush_to_zero": True,
        **exponential,
    }


def tensor_core_model() -> str:
    """The preset of this machine's tensor cores."""
    newest = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (9, 0)
    return "flash-h100" if newest else "flash-a100"


def attend(
    backends: list[SDPBackend],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float | None,
    causal: bool,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """q (batch, heads, n_q, d), k (batch, kv_heads, n_k, d), v (batch, kv_heads, n_k, d_v)."""
    handed = one_mask(q, k, causal, mask, bias)
    with sdpa_kernel(backends):
        return scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=handed,
            is_causal=causal and handed is None,
            scale=scale,
            enable_gqa=q.shape[1] != k.shape[1],
        )


def refusal(backend: SDPBackend, device: str) -> str | None:
    """Why torch cannot run a backend on a device, found out by a small call; None if it can."""
    if device == "cuda" and not torch.cuda.is_available():
        return f"no CUDA device; {_attempt(backend, 'cpu') or 'torch runs it on the CPU only'}"
    return _attempt(backend, device)


def _attempt(backend: SDPBackend, device: str) -> str | None:
    x = torch.zeros(1, 1, 16, 64, dtype=torch.bfloat16, device=device)
    name = backend.name.lower().replace("_", " ")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            attend([backend], x, x, x, None, False)
        except RuntimeError as error:
            return f"torch's {name} has no backend for {device}: {str(error).split('.')[0]}"
    return None


def _needs(backend: SDPBackend, device: str) -> Callable[[], str | None]:
    return lambda: refusal(backend, device)


@kernel(
    name="torch-sdpa",
    operation="attention",
    summary="torch SDPA, the backend that torch chooses on a CPU",
    devices=("cpu",),
    model={name: [flash_model(name, "both"), math_model(name)] for name in DTYPES},
    corner="top-left",
    masked_nonfinite="leaks",
    source=SOURCE,
)
def default(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Whichever backend torch chooses."""
    return attend(EVERY_BACKEND, q, k, v, scale, causal, mask, bias)


@kernel(
    name="torch-sdpa-cuda",
    operation="attention",
    summary="torch SDPA, the backend that torch chooses on CUDA",
    devices=("cuda",),
    model={"fp16": tensor_core_model(), "bf16": tensor_core_model(), "fp32": "single"},
    corner="top-left",
    masked_nonfinite="leaks",
    unavailable=_needs(SDPBackend.MATH, "cuda"),
    source=SOURCE,
)
def default_cuda(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Whichever backend torch chooses."""
    return attend(EVERY_BACKEND, q, k, v, scale, causal, mask, bias)


@kernel(
    name="torch-sdpa-math",
    operation="attention",
    summary="torch SDPA, math backend",
    model={name: math_model(name) for name in DTYPES},
    corner="top-left",
    masked_nonfinite="leaks",
    unavailable=_needs(SDPBackend.MATH, "cpu"),
    source=SOURCE,
)
def math(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """The composition of tensor operations."""
    return attend([SDPBackend.MATH], q, k, v, scale, causal, mask, bias)


@kernel(
    name="torch-sdpa-flash",
    operation="attention",
    summary="torch SDPA, flash backend on a CPU",
    devices=("cpu",),
    model={name: flash_model(name) for name in DTYPES},
    corner="top-left",
    masked_nonfinite="leaks",
    without=("d_v", "dbias"),
    unavailable=_needs(SDPBackend.FLASH_ATTENTION, "cpu"),
    source=SOURCE,
)
def flash(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """The CPU's flash kernel: d_v = d, last axis contiguous."""
    return attend([SDPBackend.FLASH_ATTENTION], q, k, v, scale, causal, mask, bias)


@kernel(
    name="torch-sdpa-flash-lse",
    operation="attention",
    summary="the CPU's flash kernel with its log-sum-exp",
    devices=("cpu",),
    model={name: flash_model(name) for name in DTYPES},
    corner="top-left",
    masked_nonfinite="leaks",
    empty_lse="0",  # as found; torch does not document it
    without=("d_v", "gqa", "empty", "dbias"),
    unavailable=_needs(SDPBackend.FLASH_ATTENTION, "cpu"),
    source=SOURCE,
)
def flash_lse(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The operator below torch's flash backend; its masks are floating, (…, n_q, n_k)."""
    added = joined(seen(q, k, mask, "top-left") if causal else mask, bias)
    if added is not None and added.dtype == torch.bool:
        added = numbers(added, q.dtype)
    operator = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    out, lse = operator(q, k, v, attn_mask=added, scale=scale)
    return (out, lse) if return_lse else out


@kernel(
    name="torch-sdpa-flash-cuda",
    operation="attention",
    summary="torch SDPA, flash backend on CUDA",
    formats=("fp16", "bf16"),
    devices=("cuda",),
    model=tensor_core_model(),
    corner="top-left",
    without=("d_v", "cross", "empty"),
    d=(1, 256),
    unavailable=_needs(SDPBackend.FLASH_ATTENTION, "cuda"),
    source=SOURCE,
)
def flash_cuda(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float | None = None, causal: bool = False
) -> Tensor:
    """FlashAttention as torch ships it: no mask, and causal only for n_q = n_k."""
    return attend([SDPBackend.FLASH_ATTENTION], q, k, v, scale, causal)


@kernel(
    name="torch-sdpa-efficient",
    operation="attention",
    summary="torch SDPA, memory-efficient backend",
    devices=("cuda",),
    model={"fp16": tensor_core_model(), "bf16": tensor_core_model(), "fp32": "single"},
    corner="top-left",
    masked_nonfinite="leaks",
    without=("gqa", "empty"),
    d_multiple=8,
    unavailable=_needs(SDPBackend.EFFICIENT_ATTENTION, "cuda"),
    source=SOURCE,
)
def efficient(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """The CUTLASS kernel; CUDA only."""
    return attend([SDPBackend.EFFICIENT_ATTENTION], q, k, v, scale, causal, mask, bias)


@kernel(
    name="torch-sdpa-cudnn",
    operation="attention",
    summary="torch SDPA, cuDNN backend",
    formats=("fp16", "bf16"),
    devices=("cuda",),
    model=tensor_core_model(),
    corner="top-left",
    without=("d_v", "cross", "empty"),
    d=(8, 128),
    d_multiple=8,
    unavailable=_needs(SDPBackend.CUDNN_ATTENTION, "cuda"),
    source=SOURCE,
)
def cudnn(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float | None = None, causal: bool = False
) -> Tensor:
    """cuDNN's fused kernel; CUDA only."""
    return attend([SDPBackend.CUDNN_ATTENTION], q, k, v, scale, causal)
