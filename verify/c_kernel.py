"""C kernel: a function of a shared library, called through the interface of `attncert.h`.

Outputs are allocated here, filled with NaN, between two strips that must not change.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verify.declaration import Registration
from verify.errors import KernelError, UnusableError, UsageError
from verify.foreign import FORWARD, described, parsed
from verify.tensor_files import container
from verify.tensors_raw import Raw

ABI = 1
DEFAULT = "attncert_kernel"
DESCRIBE = "attncert_describe"
STRIP = 256  # bytes on either side of an output
SPEC = re.compile(r"^(?P<path>.+\.(so|dylib|dll)(\.\d+)*)(:(?P<function>\w+))?$")
TYPES = {"fp16": 1, "bf16": 2, "fp32": 3, "fp64": 4, "e4m3": 5, "e5m2": 6, "bool": 7}
INPUTS = ("x", "q", "k", "v", "mask", "bias", "sinks")


class CTensor(ctypes.Structure):
    """`attncert_tensor` of the header."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("type", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.c_int64 * 4),
        ("stride", ctypes.c_int64 * 4),
    )


class CCall(ctypes.Structure):
    """`attncert_call` of the header."""

    _fields_ = (
        ("abi", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("operation", ctypes.c_int32),
        ("causal", ctypes.c_int32),
        *((name, ctypes.POINTER(CTensor)) for name in INPUTS),
        ("scale", ctypes.c_double),
        ("softcap", ctypes.c_double),
        ("has_window", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("window_left", ctypes.c_int64),
        ("window_right", ctypes.c_int64),
        ("output", ctypes.POINTER(CTensor)),
        ("lse", ctypes.POINTER(CTensor)),
    )


def is_library(spec: str) -> bool:
    """Whether a kernel is named as `path/to/kernel.so` or `path/to/kernel.so:function`."""
    return SPEC.match(spec) is not None


def load(spec: str, operation: str | None) -> tuple[Callable[..., Any], Registration]:
    """The function of a library, as Python calls it, and what it says of itself.

    Raises      UsageError for a file or function that does not exist, UnusableError for a library
                that cannot be loaded.
    """
    match = SPEC.match(spec)
    assert match is not None
    path, name = Path(match["path"]), match["function"] or DEFAULT
    if not path.is_file():
        raise UsageError(f"no such file: {path}")
    try:
        library = ctypes.CDLL(str(path.resolve()))
    except OSError as error:
        raise UnusableError(f"loading {path} failed: {error}") from None
    function = getattr(library, name, None)
    if function is None:
        raise UsageError(f"{path} exports no function {name!r}; see attncert.h")
    function.argtypes, function.restype = [ctypes.POINTER(CCall)], ctypes.c_int
    registration = described(
        _description(library, str(path)), str(path), operation, way="C ABI", files=(path,)
    )
    assert registration.operation is not None
    number = FORWARD.index(registration.operation) + 1

    def kernel(*tensors: Raw, outputs: list[dict[str, Any]], **options: Any) -> tuple[Raw, ...]:
        names = ("q", "k", "v") if len(tensors) == 3 else ("x",)
        inputs = dict(zip(names, tensors, strict=True))
        inputs |= {n: t for n, t in options.items() if isinstance(t, Raw)}
        guarded = [Guarded(wanted) for wanted in outputs]
        call = _call(number, inputs, options, [g.raw for g in guarded])
        status = function(ctypes.byref(call))
        if status != 0:
            raise KernelError(f"{name} returned {status}")
        if any(g.touched() for g in guarded):
            raise KernelError(f"{name} wrote outside its output")
        return tuple(g.raw for g in guarded)

    return kernel, registration


def _description(library: ctypes.CDLL, source: str) -> Any:
    describe = getattr(library, DESCRIBE, None)
    if describe is None:
        return {}
    describe.argtypes, describe.restype = [], ctypes.c_char_p
    text = describe()
    if text is None:
        raise UsageError(f"{source}: {DESCRIBE} returned NULL")
    return parsed(text.decode(errors="replace"), source)


class Guarded:
    """An output between two strips of known bytes; all of it reads as NaN before the call."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        kind = container(wanted["format"])
        size = int(np.prod(wanted["shape"], dtype=np.int64)) * kind.itemsize
        self._room: NDArray[np.uint8] = np.full(size + 2 * STRIP, 0xFF, np.uint8)
        inner = self._room[STRIP : STRIP + size]
        self.raw = Raw(wanted["format"], inner.view(kind).reshape(wanted["shape"]))
        self._size = size

    def touched(self) -> bool:
        """Whether a byte of the strips has changed."""
        before, after = self._room[:STRIP], self._room[STRIP + self._size :]
        return bool((before != 0xFF).any() or (after != 0xFF).any())


def _call(
    operation: int, inputs: dict[str, Raw], options: dict[str, Any], outputs: list[Raw]
) -> CCall:
    d = inputs["q"].bits.shape[3] if "q" in inputs else 1
    window = options.get("window")
    left, right = window if window is not None else (-1, -1)
    call = CCall(
        abi=ABI,
        size=ctypes.sizeof(CCall),
        operation=operation,
        causal=int(bool(options.get("causal"))),
        scale=options.get("scale") or (0.0 if options.get("scale") == 0 else max(d, 1) ** -0.5),
        softcap=options.get("softcap") or 0.0,
        has_window=int(window is not None),
        window_left=left,
        window_right=right,
    )
    for name, raw in inputs.items():
        setattr(call, name, ctypes.pointer(_tensor(raw)))
    for name, raw in zip(("output", "lse"), outputs, strict=False):
        setattr(call, name, ctypes.pointer(_tensor(raw)))
    return call


def _tensor(raw: Raw) -> CTensor:
    """The descriptor; `ctypes.pointer` keeps it alive as long as the call."""
    bits = raw.bits
    strides = [step // bits.itemsize for step in bits.strides]
    rest = [1] * (4 - bits.ndim)
    return CTensor(
        data=bits.__array_interface__["data"][0],
        type=TYPES[raw.format],
        rank=bits.ndim,
        shape=(ctypes.c_int64 * 4)(*bits.shape, *rest),
        stride=(ctypes.c_int64 * 4)(*strides, *rest),
    )
