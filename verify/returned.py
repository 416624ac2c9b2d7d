"""Returned: outputs that were computed elsewhere, read where a kernel would have been called.

The folder holds `outputs.json`, which names the corpus that is answered, and one safetensors file
for each case with the tensors `output` and, where the kernel has it, `lse`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verify.case import Inputs
from verify.errors import InconclusiveError, KernelError, UsageError
from verify.formats import FORMATS, Format
from verify.tensor_files import Stored, read_tensors, sha256
from verify.worker import Answer, Output

ANSWERS = "outputs.json"


@dataclass(frozen=True)
class Returned:
    """A runner that calls nothing: it reads what came back for one case."""

    path: Path
    place: str

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
    ) -> Answer:
        """The outputs of the case.

        Raises      InconclusiveError where there is no file, KernelError for what it lacks.
        """
        if not self.path.is_file():
            raise InconclusiveError(f"no outputs: {self.place} is missing")
        try:
            found = read_tensors(self.path)
        except UsageError as error:
            raise KernelError(str(error)) from None
        names = wanted or ("output", "lse")[: len(shapes)]
        pairs = zip(names, shapes, strict=True)
        return Answer(tuple(self._output(found, n, shape) for n, (shape, _) in pairs), 0.0)

    def _output(self, found: dict[str, Stored], name: str, shape: tuple[int, ...]) -> Output:
        if name not in found:
            remedy = "; grade with --declare without=return_lse" if name == "lse" else ""
            raise KernelError(
                f"{self.place} has no tensor {name!r}, only {', '.join(sorted(found)) or 'none'}"
                f"{remedy}"
            )
        tensor = found[name]
        if tensor.format not in FORMATS:
            raise KernelError(f"{self.place}: {name} has type {tensor.facts['dtype']}")
        if tensor.bits.shape != tuple(shape):
            raise KernelError(
                f"{self.place}: {name} has shape {tensor.bits.shape} instead of {tuple(shape)}"
            )
        return Output(FORMATS[tensor.format], tensor.bits)


def read_answers(folder: Path, corpus: str) -> dict[str, Any]:
    """`outputs.json`: which corpus is answered, and what its maker says of kernel and device.

    Raises      UsageError where it is missing or answers another corpus.
    """
    path = folder / ANSWERS
    example = json.dumps({"corpus": corpus[:8] + "...", "kernel": "my-kernel", "device": "cpu"})
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}; it says which corpus is answered: {example}"
        ) from None
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("corpus"), str):
        raise UsageError(f"{path} must name the corpus that it answers: {example}")
    if data["corpus"] != corpus:
        raise UsageError(
            f"{path} answers corpus {data['corpus'][:16]}..., but this corpus is {corpus[:16]}...: "
            "the outputs were computed from other inputs"
        )
    device = str(data.get("device", "unknown"))
    return {**data, "device": device, "kernel": str(data.get("kernel", "graded-kernel"))}


def outputs_digest(folder: Path) -> str:
    """SHA-256 over the names and bytes of every file that came back."""
    files = sorted(folder.rglob("*.safetensors"))
    told = [[p.relative_to(folder).as_posix(), sha256(p.read_bytes())] for p in files]
    return sha256(json.dumps(told).encode())
