"""Calling: a kernel is handed what its signature takes; what comes back has a name and a shape."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from verify import packing
from verify.bounds import Bound
from verify.case import Inputs
from verify.errors import KernelError
from verify.formats import BINARY32, FORMATS, Format
from verify.kernel import Kernel
from verify.operation import PACKED, Operation, gradient_names
from verify.packing import packed, unpacked
from verify.truth import Oracle
from verify.worker import Answer, Output

Array = NDArray[np.float64]


class Runner(Protocol):
    """Whatever runs a kernel: a `Worker`, or outputs that were computed elsewhere."""

    def run(
        self,
        kernel: str,
        inputs: Inputs,
        options: dict[str, Any],
        shapes: list[tuple[tuple[int, ...], Format]],
        *,
        device: str = "cpu",
        layout: str = "contiguous",
        wanted: tuple[str, ...] = (),
    ) -> Answer: ...


@dataclass(frozen=True)
class Bench:
    """What examines a kernel: an oracle, a runner, and memories of what was computed.

    layout    how the inputs lie in memory (see `verify.tensors_torch.LAYOUTS`), or `extras-` and
              the same for mask, bias and sinks only, or `filled`: fresh memory is filled with NaN,
              or `watched`: the answer tells of torch's operators
    bounds    bounds of the model that is being judged; forgotten from one kernel to the next
    limits    largest errors under the reference contracts (+inf where flagged), kept
    """

    oracle: Oracle
    runner: Runner
    device: str = "cpu"
    grading: bool = True
    layout: str = "contiguous"
    bounds: dict[Any, Bound] = field(default_factory=dict)
    limits: dict[Any, dict[str, Array]] = field(default_factory=dict)


def run(kernel: Kernel, operation: Operation, inputs: Inputs, bench: Bench) -> Answer:
    """Call the kernel with what its signature takes of the operation."""
    options = options_of(kernel, operation)
    shapes = output_shapes(kernel, operation, inputs)
    wanted = outputs_of(kernel, operation, inputs) if operation.backward else ()
    handed = packed(operation, inputs) if operation.name in PACKED else inputs
    answer = bench.runner.run(
        kernel.name, handed, options, shapes, device=bench.device, layout=bench.layout,
        wanted=wanted,
    )  # fmt: skip
    expected = output_format(kernel, input_format(inputs))
    if answer.outputs[0].format is not expected:
        raise KernelError(f"returned {answer.outputs[0].format.name} instead of {expected.name}")
    return _unpacked(operation, answer) if operation.name in PACKED else answer


def _unpacked(operation: Operation, answer: Answer) -> Answer:
    bits = unpacked(operation, [out.bits for out in answer.outputs])
    outputs = zip(answer.outputs, bits, strict=True)
    return replace(answer, outputs=tuple(Output(out.format, b) for out, b in outputs))


def options_of(kernel: Kernel, operation: Operation) -> dict[str, Any]:
    """The keywords that a kernel is passed for an operation."""
    if not operation.is_attention:
        return {}
    options = {k: v for k, v in operation.options().items() if k in kernel.features}
    if "return_lse" in kernel.features and not operation.backward:
        options["return_lse"] = True
    return options


def outputs_of(kernel: Kernel, operation: Operation, inputs: Inputs) -> tuple[str, ...]:
    """The names of what the kernel returns, in order."""
    if operation.backward:
        without = kernel.declaration.without
        return tuple(n for n in gradient_names(operation.name, inputs.tensors) if n not in without)
    lse = operation.name == "attention" and "return_lse" in kernel.features
    return ("output", "lse") if lse else ("output",)


def output_shapes(
    kernel: Kernel, operation: Operation, inputs: Inputs
) -> list[tuple[tuple[int, ...], Format]]:
    """Shape and format of each output that the kernel must return."""
    if operation.backward:
        names = outputs_of(kernel, operation, inputs)
        return [(inputs[name[1:]].shape, inputs[name[1:]].format) for name in names]
    if operation.name in PACKED:
        fmt = output_format(kernel, inputs["q"].format)
        return packing.output_shapes(operation, inputs, fmt, "return_lse" in kernel.features)
    if operation.name != "attention":
        x = inputs["x"]
        shape = x.shape[:1] if operation.name in ("logsumexp", "cross_entropy") else x.shape
        return [(shape, output_format(kernel, x.format))]
    q, v = inputs["q"], inputs["v"]
    shapes = [((*q.shape[:3], v.shape[3]), output_format(kernel, q.format))]
    if "return_lse" in kernel.features:
        shapes.append((q.shape[:3], BINARY32))
    return shapes


def output_format(kernel: Kernel, fmt: Format) -> Format:
    """The format that the declared arithmetic gives for inputs of a format."""
    return FORMATS[kernel.models(fmt).variants[0].output]


def input_format(inputs: Inputs) -> Format:
    return inputs["q" if "q" in inputs.tensors else "x"].format


def head_dimension(inputs: Inputs) -> int | None:
    return inputs["q"].shape[3] if "q" in inputs.tensors else None
