"""Between bytes in the arena and NumPy arrays, inside the worker."""

from __future__ import annotations

from typing import Any

import numpy as np

DTYPES = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64, "bool": np.bool_}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}


def from_memory(memory: memoryview, tensor: dict[str, Any], device: str) -> Any:
    """An array over the arena: a view, not a copy."""
    dtype = np.dtype(DTYPES[tensor["format"]])
    count = int(np.prod(tensor["shape"], dtype=np.int64))
    flat = np.frombuffer(memory, dtype=dtype, count=count, offset=tensor["offset"])
    return flat.reshape(tensor["shape"])


def to_bytes(output: Any) -> tuple[dict[str, Any], bytes | None]:
    """Facts about an output (type, format, shape) and its raw bytes."""
    if isinstance(output, np.generic):
        output = np.asarray(output)
    if type(output) is not np.ndarray:
        return {"type": type(output).__name__}, None
    facts: dict[str, Any] = {
        "type": "tensor",
        "format": NAMES.get(output.dtype, str(output.dtype)),
        "shape": list(output.shape),
    }
    return facts, np.ascontiguousarray(output).tobytes() if output.dtype in NAMES else None
