"""ggml's C functions through ctypes, from the libraries that llama-cpp-python compiles."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from verify.errors import UnusableError
from verify.kernels._installed import needs

missing = needs("llama_cpp", extra="ggml")

# enum ggml_type in ggml.h
TYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 30}
SPARE = 1 << 26  # bytes for the graph, the descriptions of tensors and the scratch of the operator


class _Parameters(ctypes.Structure):
    _fields_ = (
        ("mem_size", ctypes.c_size_t),
        ("mem_buffer", ctypes.c_void_p),
        ("no_alloc", ctypes.c_bool),
    )


@cache
def libraries() -> tuple[Any, Any]:
    """(libggml-base, libggml-cpu), with the types of what is called here."""
    found = find_spec("llama_cpp")
    folders = [Path(p) / "lib" for p in (found and found.submodule_search_locations) or ()]
    folder = next((f for f in folders if (f / "libggml-cpu.so").is_file()), None)
    if folder is None:
        raise UnusableError("llama_cpp carries no libggml-cpu.so: reinstall llama-cpp-python")
    base, cpu = (ctypes.CDLL(str(folder / f"libggml-{part}.so")) for part in ("base", "cpu"))
    pointer, long, real = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
    for name, result, takes in (
        ("ggml_init", pointer, [_Parameters]),
        ("ggml_free", None, [pointer]),
        ("ggml_new_tensor_4d", pointer, [pointer, ctypes.c_int, *[long] * 4]),
        ("ggml_get_data", pointer, [pointer]),
        ("ggml_new_graph", pointer, [pointer]),
        ("ggml_build_forward_expand", None, [pointer, pointer]),
        ("ggml_flash_attn_ext", pointer, [*[pointer] * 5, *[real] * 3]),
        ("ggml_flash_attn_ext_add_sinks", None, [pointer, pointer]),
    ):
        function = getattr(base, name)
        function.restype, function.argtypes = result, takes
    cpu.ggml_graph_compute_with_ctx.restype = ctypes.c_int
    cpu.ggml_graph_compute_with_ctx.argtypes = [pointer, pointer, ctypes.c_int]
    return base, cpu


@contextmanager
def context(tensors: Sequence[Tensor | None]) -> Iterator[Any]:
    """A ggml context with room for these tensors twice, freed at the end."""
    base, _ = libraries()
    size = sum(x.numel() * 4 for x in tensors if x is not None)
    held = base.ggml_init(_Parameters(2 * size + SPARE, None, False))
    try:
        yield held
    finally:
        base.ggml_free(held)


def array(held: Any, x: Tensor) -> Any:
    """A copy of a tensor of at most 4 axes in a context; ggml counts axes from the last."""
    base, _ = libraries()
    own = x.detach().reshape(*[1] * (4 - x.dim()), *x.shape).contiguous()
    made = base.ggml_new_tensor_4d(held, TYPES[own.dtype], *reversed(own.shape))
    ctypes.memmove(base.ggml_get_data(made), own.data_ptr(), own.numel() * own.itemsize)
    return made


def computed(held: Any, made: Any, shape: tuple[int, ...]) -> Tensor:
    """The binary32 values of a ggml tensor, in one thread."""
    base, cpu = libraries()
    graph = base.ggml_new_graph(held)
    base.ggml_build_forward_expand(graph, made)
    if cpu.ggml_graph_compute_with_ctx(held, graph, 1):
        raise UnusableError("ggml_graph_compute_with_ctx failed")
    out = torch.empty(shape, dtype=torch.float32)
    ctypes.memmove(out.data_ptr(), base.ggml_get_data(made), out.numel() * out.itemsize)
    return out
