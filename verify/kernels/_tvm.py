"""TVM's Relax functions for LLVM on the CPU: compiled once for each graph, shapes left open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from verify.kernels._installed import needs

missing = needs("tvm", extra="tvm")
_COMPILED: dict[Any, Any] = {}


def run(
    key: Any, inputs: list[Tensor], axes: list[str], build: Callable[[list[Any]], Any]
) -> Tensor:
    """The output of the Relax expression that `build` makes out of one variable for each input.

    key      with the types of the inputs, what tells one graph from another.
    axes     for each input a letter for each axis; equal letters are equal lengths.
    """
    import tvm
    from tvm import relax

    found = (key, *(x.dtype for x in inputs))
    if found not in _COMPILED:
        module = _module(inputs, axes, build)
        _COMPILED[found] = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    arrays = [tvm.runtime.tensor(x.detach().contiguous().numpy()) for x in inputs]
    return torch.from_numpy(_COMPILED[found]["main"](*arrays).numpy().copy())


def _module(inputs: list[Tensor], axes: list[str], build: Callable[[list[Any]], Any]) -> Any:
    from tvm import relax, tirx

    sizes = {letter: tirx.Var(letter, "int64") for word in axes for letter in word}
    names = [str(x.dtype).removeprefix("torch.") for x in inputs]
    variables = [
        relax.Var(f"x{i}", relax.TensorType([sizes[letter] for letter in word], name))
        for i, (word, name) in enumerate(zip(axes, names, strict=True))
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", variables):
        with builder.dataflow():
            out = builder.emit_output(builder.emit(build(variables)))
        builder.emit_func_output(out)
    return builder.get()
