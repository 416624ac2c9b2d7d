"""Triton kernels on a machine without a GPU: under the interpreter, which computes with NumPy.

The worker sets TRITON_INTERPRET before anything can import triton (verify.worker_process).  What
runs is the program as written, not what a GPU computes: products and sums are NumPy's, TF32 and
fast exponentials are ignored.  bf16 is not claimed: the interpreter of Triton 3.9.0 keeps bf16
values as raw 16-bit integers (tl.dot of 1.5 and 2 over 16 terms gives 4278190080 instead of 48).
"""

from __future__ import annotations

import os
from collections.abc import Callable

from verify.kernels._installed import needs

FORMATS = ("fp16", "fp32")
SEMANTICS = "interpreter semantics (triton, TRITON_INTERPRET=1)"


def interpreted(*packages: str, extra: str) -> Callable[[], str | None]:
    """For `unavailable`: what is missing, or that Triton would compile for a GPU here."""
    missing = needs("triton", *packages, extra=extra)

    def reason() -> str | None:
        if os.environ.get("TRITON_INTERPRET") == "1":
            return missing()
        return missing() or "Triton compiles for the GPU here; set TRITON_INTERPRET=1 to interpret"

    return reason
