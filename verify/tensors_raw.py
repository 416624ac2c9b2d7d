"""Between bytes in the arena and raw bits, inside the worker: for kernels that are not Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verify.tensor_files import container
from verify.tensors_numpy import laid_out


@dataclass(frozen=True)
class Raw:
    """Bits of one tensor; `format` is a name of `verify.tensor_files.DTYPES`."""

    format: str
    bits: NDArray[np.unsignedinteger]


def from_memory(
    memory: memoryview, tensor: dict[str, Any], device: str, layout: str = "contiguous"
) -> Raw:
    """Bits over the arena: a view, not a copy; other layouts as `tensors_torch` has them."""
    plain = _plain(memory, tensor)
    hole = 0 if tensor["format"] == "bool" else np.iinfo(plain.dtype).max  # all ones: a NaN
    return Raw(tensor["format"], laid_out(plain, layout, hole))


def _plain(memory: memoryview, tensor: dict[str, Any]) -> NDArray[Any]:
    kind = container(tensor["format"])
    count = int(np.prod(tensor["shape"], dtype=np.int64))
    flat = np.frombuffer(memory, dtype=kind, count=count, offset=tensor["offset"])
    return flat.reshape(tensor["shape"])


def to_bytes(output: Any) -> tuple[dict[str, Any], bytes | None]:
    """Facts about an output (type, format, shape) and its raw bytes."""
    if not isinstance(output, Raw):
        return {"type": type(output).__name__}, None
    facts = {"type": "tensor", "format": output.format, "shape": list(output.bits.shape)}
    return facts, np.ascontiguousarray(output.bits).tobytes()


def address(output: Any) -> int | None:
    """Where the memory begins in which the bits lie (None: there is no element)."""
    if not isinstance(output, Raw) or output.bits.size == 0:
        return None
    array = output.bits
    while isinstance(array.base, np.ndarray):
        array = array.base
    return int(array.__array_interface__["data"][0])


def poison(sizes: list[int], device: str) -> None:
    """Nothing to do: whoever calls a foreign kernel fills its outputs with NaN first."""
