"""Machine code for the fast tier: numba with explicit signatures and a cache that cannot go stale.

numba keys its cache on the file of the compiled function and does not see a change in a function
that this one imports from elsewhere.  So the cache lives in a folder named after a digest of every
source file of `references/fast`: another text, another folder, a new compilation.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., object])

_SOURCES = Path(__file__).parent
_LOG = logging.getLogger("attncert")


def _digest() -> str:
    text = b"".join(path.read_bytes() for path in sorted(_SOURCES.glob("*.py")))
    return hashlib.sha256(text + numba.__version__.encode()).hexdigest()[:16]


@functools.cache
def _folder() -> Path:
    """Beside the sources; where those are read-only, in the user's cache folder."""
    beside = _SOURCES / "__pycache__" / f"kernels-{_digest()}"
    try:
        beside.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path.home() / ".cache" / "attncert" / beside.name
    for stale in set(beside.parent.glob("kernels-*")) - {beside}:
        shutil.rmtree(stale, ignore_errors=True)
    return beside


_importing = threading.RLock()


@contextmanager
def cache() -> Iterator[None]:
    """While the kernels' modules are imported, numba keeps its cache in our folder."""
    settings: Any = numba.config
    with _importing:
        folder, before = _folder(), settings.CACHE_DIR
        if not any(folder.rglob("*.nbi")):
            _LOG.warning("attncert compiles its numerical kernels, once for this installation")
        settings.CACHE_DIR = str(folder)
        try:
            yield
        finally:
            settings.CACHE_DIR = before


def kernel(signature: str) -> Callable[[Function], Function]:
    """Compiles for one signature, without fastmath: no contraction, no reassociation."""
    compile_ = numba.njit(
        signature, cache=True, nogil=True, error_model="numpy", boundscheck=False, fastmath=False
    )
    return cast("Callable[[Function], Function]", compile_)


def inlined(function: Function) -> Function:
    """A step of a kernel: compiled into its callers."""
    return cast(Function, numba.njit(nogil=True, error_model="numpy", fastmath=False)(function))


def _fma(_typing: Any, a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """a b + c with one rounding."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


def _float_of_bits(_typing: Any, bits: Any) -> tuple[Any, Any]:
    """The binary64 number with these 64 bits."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


def _bits_of_float(_typing: Any, number: Any) -> tuple[Any, Any]:
    """The 64 bits of a binary64 number."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


fma = cast("Callable[[float, float, float], float]", intrinsic(_fma))
float_of_bits = cast("Callable[[int], float]", intrinsic(_float_of_bits))
bits_of_float = cast("Callable[[float], int]", intrinsic(_bits_of_float))
