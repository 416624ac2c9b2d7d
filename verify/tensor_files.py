"""Tensor files: bits in safetensors files, whose bytes depend on nothing but what is in them.

The writer is our own, because a file must have the same bytes on every run and in every version:
sorted names, a header padded with spaces to a multiple of 8 bytes, little-endian data, no metadata.
The reader is the one of the library `safetensors`, which checks a foreign file.

Source      https://huggingface.co/docs/safetensors/index#format
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verify.errors import UsageError
from verify.formats import FORMATS

# Names of our formats in a file, and of the other things that we keep there.
DTYPES = {
    "fp16": "F16",
    "bf16": "BF16",
    "fp32": "F32",
    "fp64": "F64",
    "e4m3": "F8_E4M3",
    "e5m2": "F8_E5M2",
    "bool": "BOOL",
    "uint8": "U8",
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
_OTHER = {"bool": np.dtype(np.uint8), "uint8": np.dtype(np.uint8)}


@dataclass(frozen=True)
class Stored:
    """Bits of one tensor; `format` is a name of `DTYPES` (booleans are bytes 0 and 1)."""

    format: str
    bits: NDArray[np.unsignedinteger]

    @property
    def facts(self) -> dict[str, Any]:
        """What an index says of it."""
        return {"dtype": DTYPES[self.format], "shape": list(self.bits.shape)}


def container(name: str) -> np.dtype[Any]:
    """The unsigned little-endian integers that hold the bits of a format of that name."""
    found = _OTHER.get(name) or np.dtype(FORMATS[name].container)
    return found.newbyteorder("<")


def serialised(tensors: Mapping[str, Stored]) -> bytes:
    """The bytes of a file with these tensors."""
    header: dict[str, Any] = {}
    data, offset = [], 0
    # Wide types first, as the format's own writers do, so that every tensor is aligned.
    order = sorted(tensors, key=lambda n: (-container(tensors[n].format).itemsize, n))
    for name in order:
        tensor = tensors[name]
        raw = np.ascontiguousarray(tensor.bits, container(tensor.format)).tobytes()
        header[name] = {**tensor.facts, "data_offsets": [offset, offset + len(raw)]}
        offset += len(raw)
        data.append(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(data)


def deserialised(raw: bytes, source: str) -> dict[str, Stored]:
    """The tensors of a file.

    Raises      UsageError for bytes that are no safetensors file, and for a type that has no place
                here; `source` is what the message calls the file.
    """
    from safetensors import SafetensorError, deserialize

    read: Any = deserialize
    try:
        entries = read(raw)
    except SafetensorError as error:
        raise UsageError(f"{source} is not a safetensors file: {error}") from None
    found = {}
    for name, entry in entries:
        if entry["dtype"] not in NAMES:
            raise UsageError(
                f"{source}: {name} has type {entry['dtype']}; known: {', '.join(NAMES)}"
            )
        kind = NAMES[entry["dtype"]]
        bits = np.frombuffer(bytes(entry["data"]), container(kind)).reshape(entry["shape"])
        found[name] = Stored(kind, bits.astype(bits.dtype.newbyteorder("=")))
    return found


def read_tensors(path: Path) -> dict[str, Stored]:
    """The tensors of a file. Raises UsageError where it cannot be read or is none."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    return deserialised(raw, str(path))


def write_whole(path: Path, raw: bytes) -> None:
    """Write a file whole or not at all; one that holds these bytes already is left alone."""
    if path.is_file() and path.stat().st_size == len(raw) and path.read_bytes() == raw:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(raw)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sha256(raw: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(raw).hexdigest()
