"""Between bytes in the arena and NumPy arrays, inside the worker."""

from __future__ import annotations

from typing import Any

import numpy as np

DTYPES = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64, "bool": np.bool_}
INTEGERS = {"int32": np.int32, "int64": np.int64}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}


def from_memory(
    memory: memoryview, tensor: dict[str, Any], device: str, layout: str = "contiguous"
) -> Any:
    """An array over the arena: a view, not a copy; other layouts as `tensors_torch` has them."""
    plain = _plain(memory, tensor)
    return laid_out(plain, layout, False if plain.dtype == np.bool_ else np.nan)


def laid_out(plain: Any, layout: str, hole: Any) -> Any:
    """The same elements in a layout of their own storage; `hole` lies where no element does."""
    if plain.ndim < 2 or plain.dtype.kind == "i" or plain.size == 0 or layout == "contiguous":
        return plain
    if layout == "expanded":
        return _expanded(plain)
    if layout == "transposed":
        first, second = (1, 2) if plain.ndim == 4 else (0, 1)
        return np.ascontiguousarray(plain.swapaxes(first, second)).swapaxes(first, second)
    step = 2 if layout == "sliced" else 1
    shape = (*plain.shape[:-2], 2 * plain.shape[-2] + 1, plain.shape[-1])
    room = np.full(shape, hole, plain.dtype)
    chosen = room[..., 1 : 1 + step * plain.shape[-2] : step, :]
    chosen[...] = plain
    return chosen


def _expanded(plain: Any) -> Any:
    """Stride 0 along each axis but the last where all entries are equal; read-only."""
    one = plain
    for axis in range(plain.ndim - 1):
        first = one.take([0], axis)
        if (one == first).all():
            one = first
    return np.broadcast_to(one.copy(), plain.shape)


def _plain(memory: memoryview, tensor: dict[str, Any]) -> Any:
    dtype = np.dtype((DTYPES | INTEGERS)[tensor["format"]])
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


def address(output: Any) -> int | None:
    """Where the memory begins in which an array lies (None: it holds no element)."""
    if not isinstance(output, np.ndarray) or output.size == 0:
        return None
    while isinstance(output.base, np.ndarray):
        output = output.base
    return int(output.__array_interface__["data"][0])


def poison(sizes: list[int], device: str) -> None:
    """Leave blocks of these many bytes behind that read as NaN, for the next allocation to find."""
    blocks = [np.full(size, 0xFF, np.uint8) for size in sizes for _ in range(2)]
    del blocks
