"""Between bytes in the arena and torch tensors, inside the worker."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

DTYPES = {
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp32": torch.float32,
    "fp64": torch.float64,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "bool": torch.bool,
    "int32": torch.int32,
    "int64": torch.int64,
}
_INTEGERS = (torch.int32, torch.int64)
NAMES = {dtype: name for name, dtype in DTYPES.items()}
_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@contextmanager
def filled_memory() -> Iterator[None]:
    """While it lasts, torch fills fresh memory with NaN (a part of its deterministic mode)."""
    before = torch.are_deterministic_algorithms_enabled()
    only_warns = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with warnings.catch_warnings():  # of operators that know no deterministic way
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=only_warns)


# How inputs may lie in memory. Slots that belong to no element hold NaN, or the opposite in a mask.
LAYOUTS = ("contiguous", "transposed", "sliced", "offset", "expanded")


def from_memory(
    memory: memoryview, tensor: dict[str, Any], device: str, layout: str = "contiguous"
) -> torch.Tensor:
    """A tensor over the arena (on the CPU: a view, not a copy), laid out as asked."""
    plain = _plain(memory, tensor, device)
    if plain.numel() == 0 or plain.dtype in _INTEGERS:
        return plain
    if plain.dim() == 1:  # sinks
        return _sliced(plain.unsqueeze(-1)).squeeze(-1) if layout == "sliced" else plain
    return _laid_out(plain, layout)


def _laid_out(plain: torch.Tensor, layout: str) -> torch.Tensor:
    """The same numbers in a layout of their own storage."""
    if layout == "transposed":  # (batch, n, heads, d) in memory; for rows: column by column
        first, second = (1, 2) if plain.dim() == 4 else (0, 1)
        return plain.transpose(first, second).contiguous().transpose(first, second)
    if layout == "sliced":
        return _sliced(plain)
    if layout == "offset":  # storage begins one element early, so rows are misaligned
        room = _guard(plain.new_empty(plain.numel() + 1))
        room[1:] = plain.reshape(-1)
        return room[1:].view(plain.shape)
    if layout == "expanded":
        return _expanded(plain)
    return plain


def _sliced(plain: torch.Tensor) -> torch.Tensor:
    """Every second row of a buffer twice as long."""
    room = _guard(plain.repeat_interleave(2, dim=-2))
    room[..., ::2, :] = plain
    return room[..., ::2, :]


def _guard(room: torch.Tensor) -> torch.Tensor:
    """What lies where no element does."""
    return room.logical_not_() if room.dtype == torch.bool else room.fill_(float("nan"))


def _expanded(plain: torch.Tensor) -> torch.Tensor:
    """Stride 0 along each axis but the last where all entries are equal: a broadcast tensor."""
    one = plain
    for axis in range(plain.dim() - 1):
        first = one.narrow(axis, 0, 1)
        if bool((one == first).all()):
            one = first
    return one.clone().expand(plain.shape)


def _plain(memory: memoryview, tensor: dict[str, Any], device: str) -> torch.Tensor:
    dtype, shape = DTYPES[tensor["format"]], tensor["shape"]
    count = 1
    for size in shape:
        count *= size
    if count == 0:
        return torch.empty(shape, dtype=dtype, device=device)
    raw = torch.frombuffer(
        memory, dtype=torch.uint8, count=count * dtype.itemsize, offset=tensor["offset"]
    )
    view = raw.view(dtype).view(shape)
    return view if device == "cpu" else view.to(device)


def to_bytes(output: Any) -> tuple[dict[str, Any], bytes | None]:
    """Facts about an output (type, format, shape) and its raw bytes."""
    if type(output) is torch.nn.Parameter:
        output = output.data
    if type(output) is not torch.Tensor:
        return {"type": type(output).__name__}, None
    facts: dict[str, Any] = {
        "type": "tensor",
        "format": NAMES.get(output.dtype, str(output.dtype)),
        "shape": list(output.shape),
    }
    if output.dtype not in NAMES or output.layout is not torch.strided:
        return facts, None
    plain = output.detach().to("cpu").contiguous()
    words = plain.reshape(-1).view(_WORDS[plain.dtype.itemsize])
    return facts, words.numpy().tobytes()


def address(output: Any) -> int | None:
    """Where the storage of a tensor begins (None: it holds no element)."""
    if not isinstance(output, torch.Tensor) or output.layout is not torch.strided:
        return None
    return output.untyped_storage().data_ptr() or None


def poison(sizes: list[int], device: str) -> None:
    """Leave blocks of these many bytes behind that read as NaN, for the next allocation to find."""
    blocks = [
        torch.full((size,), 0xFF, dtype=torch.uint8, device=device)
        for size in sizes
        for _ in range(2)
    ]
    del blocks
