"""Machine code for the fast tier: numba with explicit signatures and a cache that cannot go stale.

numba keys its cache on the file of the compiled function and does not see a change in a function
that this one imports from elsewhere.  So the cache lives in a folder named after a digest of every
source file of `references/fast`: another text, another folder, a new compilation.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Flags = NDArray[np.uint8]

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
_PATIENCE = 120.0  # seconds that we wait for the other process


@contextmanager
def cache() -> Iterator[None]:
    """While the kernels' modules are imported, numba keeps its cache in our folder."""
    settings: Any = numba.config
    with _importing:
        folder, before = _folder(), settings.CACHE_DIR
        if not any(folder.rglob("*.nbi")):
            _LOG.warning("attncert compiles its numerical kernels, once for this installation")
        settings.CACHE_DIR = str(folder)
        collecting = gc.isenabled()
        gc.disable()  # a compiler makes many objects and little garbage: a tenth of its time
        try:
            yield
        finally:
            settings.CACHE_DIR = before
            if collecting:
                gc.enable()


@contextmanager
def beside(name: str) -> Iterator[None]:
    """Another process compiles the module `references.fast.<name>` meanwhile, unless it is cached.

    numba compiles one function at a time in a process.  What the other process does not get done is
    compiled here when the module is imported.
    """
    child = None if any(_folder().rglob(f"{name}.*.nbi")) else _compiling(name)
    try:
        yield
    finally:
        if child is not None:
            try:
                child.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _compiling(name: str) -> subprocess.Popen[bytes] | None:
    """The process that compiles a module; None where there is no second processor for it."""
    processors = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(2)
    if len(processors) < 2 or not sys.executable:
        return None
    start = "from references.fast import compiled\nwith compiled.cache(): "
    path = os.pathsep.join([str(_SOURCES.parents[1]), *filter(None, sys.path)])
    quiet = subprocess.DEVNULL
    try:
        return subprocess.Popen(
            [sys.executable, "-c", f"{start}import references.fast.{name}"],
            env={**os.environ, "PYTHONPATH": path},
            stdin=quiet,
            stdout=quiet,
            stderr=quiet,
        )
    except OSError:
        return None


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
