"""The flash kernel of `examples/triton_flash.py`, our own, under Triton's interpreter.

The example is what a kernel author starts from; it lies in the source tree, not in the wheel.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

from torch import Tensor

import verify
from verify.kernels import kernel
from verify.kernels._triton import FORMATS, SEMANTICS, interpreted

EXAMPLE = Path(verify.__file__).resolve().parent.parent / "examples" / "triton_flash.py"


def _unavailable() -> str | None:
    if not EXAMPLE.is_file():
        return "examples/triton_flash.py lies in the source tree, which is not installed"
    return interpreted(extra="triton")()


@cache
def _example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("attncert_example_triton_flash", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@kernel(
    name="triton-flash",
    operation="attention",
    summary=f"examples/triton_flash.py, {SEMANTICS}",
    formats=FORMATS,
    devices=("cpu",),
    # NumPy documents its AVX-512 exp as 2.52 ulp and log as 3.83 ulp in binary32
    model={
        name: {
            "name": "triton-flash",
            "input": name,
            "output": name,
            "p_format": name,
            "block": 32,
            "exp_ulps": 2.6,
            "log_ulps": 4.0,
        }
        for name in FORMATS
    },
    masked_nonfinite="leaks",
    without=("empty",),
    unavailable=_unavailable,
    libraries=("triton",),
    source=f"examples/triton_flash.py; {SEMANTICS}",
)
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """q (batch, heads, n_q, d), k (batch, kv_heads, n_k, d), v (batch, kv_heads, n_k, d_v)."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    found: Tensor | tuple[Tensor, Tensor] = _example().attention(
        q, k, v, scale=scale, causal=causal, return_lse=return_lse
    )
    return found
