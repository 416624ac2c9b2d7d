"""The arithmetic model of attention written out in the input format, as plain data."""

from __future__ import annotations

from typing import Any


def eager_model(label: str, name: str, **changes: Any) -> dict[str, Any]:
    """Every step stored in the format `name`, the softmax inside in binary32.

    P is normalised, and `stored_row_sum` stands for the rounding of the reciprocal with which
    torch.softmax normalises.  torch's bf16 products on a CPU with bf16 units read subnormals as
    zero.
    """
    return {
        "name": label,
        "input": name,
        "output": name,
        "stored_scores": None if name == "fp32" else name,
        "stores": "each",
        "p_format": name,
        "p_normalised": True,
        "stored_row_sum": "fp32",
        "block": None,
        "flush_to_zero": name == "bf16",
        **changes,
    }
