"""OpenVINO graphs on the CPU plugin: compiled once for each signature, fed with torch tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_TYPES = {
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.bool: "boolean",
}
_COMPILED: dict[Any, Any] = {}


def run(
    name: str,
    inputs: list[Tensor],
    build: Callable[[list[Any]], Any],
    hint: str | None = "f32",
) -> Tensor:
    """The output of a graph that `build` makes out of one parameter for each input.

    name     with the types and ranks of the inputs, what tells one graph from another.
    hint     INFERENCE_PRECISION_HINT; None: what the plugin chooses on this machine.
    """
    key = (name, hint, *((x.dtype, x.dim()) for x in inputs))
    if key not in _COMPILED:
        _COMPILED[key] = _compile(inputs, build, hint)
    request = _COMPILED[key]
    # the tensors share the memory of the inputs, which live until the end of the call
    held = [x.contiguous() for x in inputs]
    request.infer([_tensor(x) for x in held], share_inputs=True)
    out = request.get_output_tensor()
    return _from(out)


def _compile(inputs: list[Tensor], build: Callable[[list[Any]], Any], hint: str | None) -> Any:
    import openvino as ov
    from openvino import opset13 as opset

    parameters = [
        opset.parameter(ov.PartialShape([-1] * x.dim()), getattr(ov.Type, _TYPES[x.dtype]))
        for x in inputs
    ]
    model = ov.Model([build(parameters)], parameters, "attncert")
    settings = {} if hint is None else {"INFERENCE_PRECISION_HINT": getattr(ov.Type, hint)}
    return ov.Core().compile_model(model, "CPU", settings).create_infer_request()


def _tensor(x: Tensor) -> Any:
    import openvino as ov

    if x.dtype == torch.bfloat16:
        return ov.Tensor(x.view(torch.uint16).numpy(), x.shape, ov.Type.bf16)
    return ov.Tensor(x.numpy(), shared_memory=True)


def _from(out: Any) -> Tensor:
    dtype = next(d for d, n in _TYPES.items() if n == out.element_type.get_type_name())
    words = torch.frombuffer(bytearray(out.data.tobytes()), dtype=torch.uint8)
    return words.view(dtype).reshape(tuple(out.shape))
