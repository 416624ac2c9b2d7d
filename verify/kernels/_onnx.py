"""ONNX models of one node, and how onnxruntime runs them on the CPU, one thread."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from verify.kernels._installed import needs

ELEMENT = {"float32": "FLOAT", "float16": "FLOAT16", "bfloat16": "BFLOAT16", "bool": "BOOL"} | {
    "int32": "INT32"
}


missing = needs("onnxruntime", "onnx", extra="onnxruntime")


def model(
    op: str,
    inputs: tuple[tuple[str, str], ...],
    attributes: tuple[tuple[str, Any], ...],
    *,
    domain: str = "",
    opset: int = 24,
    outputs: int = 1,
    output: str | None = None,
) -> Any:
    """A model with a single node.

    inputs      (name, dtype) in the operator's order; one that is left out is called ''
    output      dtype of the outputs (None: that of the first input)
    """
    import onnx
    from onnx import helper

    def value(name: str, dtype: str) -> Any:
        element = getattr(onnx.TensorProto, ELEMENT[dtype])
        return helper.make_tensor_value_info(name, element, None)

    names = [f"out{i}" for i in range(outputs)]
    node = helper.make_node(op, [n for n, _ in inputs], names, domain=domain, **dict(attributes))
    graph = helper.make_graph(
        [node],
        "attncert",
        [value(n, t) for n, t in inputs if n],
        [value(n, output or inputs[0][1]) for n in names],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@lru_cache(maxsize=64)
def _session(op: str, inputs: Any, attributes: Any, rest: tuple[tuple[str, Any], ...]) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    made = model(op, inputs, attributes, **dict(rest)).SerializeToString()
    return onnxruntime.InferenceSession(made, options, providers=["CPUExecutionProvider"])


def run(op: str, inputs: dict[str, Any], attributes: dict[str, Any], **rest: Any) -> Any:
    """The first output of one node, run by onnxruntime; inputs that are None are left out.

    rest        domain, opset, outputs of `model`
    """
    given = {name: a for name, a in inputs.items() if a is not None}
    last = max(i for i, name in enumerate(inputs) if name in given)
    kinds = tuple(
        (name, given[name].dtype.name) if name in given else ("", "")
        for name in list(inputs)[: last + 1]
    )
    session = _session(op, kinds, tuple(sorted(attributes.items())), tuple(sorted(rest.items())))
    import numpy as np

    # onnxruntime takes the addresses of contiguous arrays only
    feed = {name: np.ascontiguousarray(a) for name, a in given.items()}
    return session.run(["out0"], feed)[0]
