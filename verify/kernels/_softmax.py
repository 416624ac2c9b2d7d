"""The arithmetic model of a softmax kernel, as plain data."""

from __future__ import annotations

from typing import Any


def softmax_model(name: str, inner: str = "fp32", **changes: Any) -> dict[str, Any]:
    """Input and output in the format `name`, everything between in the format `inner`.

    The row sum of a 16-bit `inner` is that of PyTorch and NumPy: accumulated in binary32 in any
    order and rounded once, which is no worse than 16-bit pairwise additions.
    """
    return {
        "name": "textbook",
        "input": name,
        "output": name,
        "p_format": name,
        "p_normalised": True,
        "softmax_format": inner,
        "row_sum": {"format": inner, "mode": "RN"},
        "row_sum_order": "any" if inner == "fp32" else "pairwise",
        "lse_format": name,
        "block": None,
        **changes,
    }
