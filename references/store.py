"""Enclosures on disk, found by their content: computing a truth once is enough.

The key of an entry is the SHA-256 of everything that the answer depends on: the function, the
source text of this package, the versions of the libraries under it, every option, and type, shape
and bytes of every array.  So an entry never needs to be declared stale, and can be deleted at any
time.  A file that cannot be read, or that is not what its name says, counts as absent.
"""

from __future__ import annotations

import hashlib
import math
import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from references.enclosure import AttentionTruth, Enclosure

Truth = TypeVar("Truth", Enclosure, AttentionTruth)

_LIBRARIES = ("numpy", "mpmath", "python-flint", "numba")
_WORDS = ("hi", "lo", "radius", "classes", "tier")
_UNREADABLE = (
    OSError, ValueError, KeyError, EOFError, NotImplementedError, struct.error, zipfile.BadZipFile,
    zlib.error,
)  # fmt: skip


class Store:
    """A directory of enclosures.

    The directory is the one given, else the environment variable ATTNCERT_CACHE, else
    ~/.cache/attncert.  It is created when something is written; where it cannot be written, the
    store computes and keeps nothing.
    """

    def __init__(self, directory: str | Path | None = None) -> None:
        chosen = directory or os.environ.get("ATTNCERT_CACHE") or Path.home() / ".cache/attncert"
        self.directory = Path(chosen)

    def cached(
        self, function: Callable[..., Truth], *arguments: object, **options: object
    ) -> Truth:
        """function(*arguments, **options), from the disk if it has been computed before."""
        options = {name: _reusable(value) for name, value in options.items()}
        key = content_key(function, arguments, options)
        found = self._read(key)
        if found is not None:
            return cast("Truth", found)  # the key names the function
        truth = function(*arguments, **options)
        with suppress(OSError):
            self._write(key, truth)
        return truth

    def path(self, key: str) -> Path:
        """Where the entry of a key is kept."""
        return self.directory / key[:2] / f"{key}.npz"

    def _read(self, key: str) -> Enclosure | AttentionTruth | None:
        try:
            # opened here, because np.load leaves a file that it cannot read open
            with self.path(key).open("rb") as file, np.load(file, allow_pickle=False) as entry:
                if str(entry["key"]) != key:
                    return None
                return _unpacked({name: entry[name] for name in entry.files})
        except _UNREADABLE:
            return None

    def _write(self, key: str, truth: Enclosure | AttentionTruth) -> None:
        """Under a temporary name first: another process sees a whole file or none."""
        path = self.path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                fields: dict[str, Any] = {"key": np.array(key), **_packed(truth)}
                np.savez(file, **fields)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def content_key(
    function: Callable[..., object], arguments: Iterable[object], options: dict[str, object]
) -> str:
    """The SHA-256, in hexadecimal, of all that the answer of a call depends on."""
    digest = hashlib.sha256()
    _feed(digest, [oracle_version(), f"{function.__module__}.{function.__qualname__}"])
    _feed(digest, list(arguments))
    for name in sorted(options):
        _feed(digest, [name, options[name]])
    return digest.hexdigest()


@cache
def oracle_version() -> str:
    """The source text of this package and the versions of the libraries it computes with."""
    digest = hashlib.sha256()
    root = Path(__file__).parent
    for path in sorted(root.rglob("*.py")):
        _feed(digest, [path.relative_to(root).as_posix(), path.read_bytes()])
    for library in _LIBRARIES:
        with suppress(PackageNotFoundError):
            _feed(digest, [library, version(library)])
    return digest.hexdigest()


def _reusable(value: object) -> object:
    """An iterator can be read only once, and is read twice: for the key and by the function."""
    return list(value) if isinstance(value, Iterator) else value


def _feed(digest: Any, value: object) -> None:
    """Add a value so that different values never give the same bytes."""
    kind, body = _encoded(value)
    digest.update(f"{kind}:{len(body)}:".encode())
    digest.update(body)


def _encoded(value: object) -> tuple[str, bytes]:
    match value:
        case None | bool() | int() | str():
            return type(value).__name__, repr(value).encode()
        case bytes():
            return "bytes", value
        case float():
            return "float", ("nan" if math.isnan(value) else value.hex()).encode()
        case np.ndarray():
            content = np.ascontiguousarray(value).tobytes()
            return f"array {value.dtype.str} {value.shape}", content
        case np.generic():
            return _encoded(value.item())
        case list() | tuple():
            inner = hashlib.sha256()
            for item in value:
                _feed(inner, item)
            return f"sequence {len(value)}", inner.digest()
    raise TypeError(f"cannot make a key of {type(value).__name__}: use numbers, arrays, sequences")


def _packed(truth: Enclosure | AttentionTruth) -> dict[str, np.ndarray[Any, Any]]:
    if isinstance(truth, Enclosure):
        return {name: getattr(truth, name) for name in _WORDS}
    parts = {"output": truth.output, "lse": truth.lse}
    packed = {f"{part}.{name}": getattr(e, name) for part, e in parts.items() for name in _WORDS}
    return {**packed, "magnitude": truth.magnitude}


def _unpacked(entry: dict[str, Any]) -> Enclosure | AttentionTruth:
    if "hi" in entry:
        return Enclosure(*(entry[name] for name in _WORDS))
    output, lse = (
        Enclosure(*(entry[f"{part}.{name}"] for name in _WORDS)) for part in ("output", "lse")
    )
    return AttentionTruth(output, lse, entry["magnitude"])
