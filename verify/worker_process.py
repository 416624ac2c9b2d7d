"""The program inside the worker: it loads kernels, runs them, and knows nothing else.

Requests and answers are JSON lines on one socket.  Inputs lie in a file that both sides map (the
arena): the kernel's CPU tensors are views of it, so the parent sees for itself whether an input was
changed.  Raw output bytes go back through the same arena.  No module of `references` is imported.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import mmap
import os
import resource
import socket
import sys
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from verify import c_kernel, command_kernel
from verify.declaration import ATTRIBUTE, Declaration, Registration
from verify.describing import describe, libraries
from verify.errors import AttncertError, UnusableError, UsageError
from verify.operation import ARGUMENTS, BACKWARD, FORWARD
from verify.stopwatch import timed

KEPT_OUTPUTS = 6


def main(connection: socket.socket) -> None:
    """Serve requests until the parent closes the connection."""
    loaded: dict[str, Loaded] = {}
    stream = connection.makefile("rwb")
    arena = Arena()
    for line in stream:
        stream.write(json.dumps(answer(json.loads(line), loaded, arena)).encode() + b"\n")
        stream.flush()


def answer(request: dict[str, Any], loaded: dict[str, Loaded], arena: Arena) -> dict[str, Any]:
    """The answer to one request; an error is an answer too."""
    try:
        if request["do"] == "list":
            return {"kernels": _list()}
        if request["do"] == "watch":
            from verify.operators import prepare

            prepare()
            return {}
        if request["do"] == "libraries":
            return {"libraries": libraries()}
        if request["do"] == "load":
            kernel = load(request["kernel"], request.get("operation"), request.get("direction"))
            loaded[request["kernel"]] = kernel
            return {"description": kernel.description}
        return {**loaded[request["kernel"]].run(request, arena), "nonce": request["nonce"]}
    except AttncertError as error:
        return {"error": str(error), "kind": type(error).__name__}
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a kernel raises is an answer, not our crash
        return {
            "error": _one_line(error),
            "kind": "KernelError",
            "traceback": traceback.format_exc(),
        }


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:500]}" if text else type(error).__name__


def _list() -> list[dict[str, Any]]:
    from verify.kernels import load_all

    return [describe(function, name) for name, function in load_all().items()]


class Arena:
    """The mapped file through which tensors go in and out."""

    def __init__(self) -> None:
        self._map: mmap.mmap | None = None

    def view(self, path: str, size: int) -> memoryview:
        """The first `size` bytes of the file, mapped anew when it has grown."""
        if self._map is None or len(self._map) < size:
            with Path(path).open("r+b") as file:
                self._map = mmap.mmap(file.fileno(), 0)
        return memoryview(self._map)[:size]


class Loaded:
    """One kernel: the function, how to call it, and its description."""

    def __init__(
        self,
        function: Callable[..., Any],
        registration: Registration,
        name: str,
        operation: str | None,
        direction: str | None = None,
    ) -> None:
        self.registration = registration
        self.description = describe(function, name, registration, operation)
        self.function = function
        self.differentiated = self._turn(direction)
        self.features = set(self.description["features"])
        self._kept: deque[tuple[int, Any]] = deque(maxlen=KEPT_OUTPUTS)

    def _turn(self, direction: str | None) -> bool:
        """Become the backward pass of the kernel where that is asked for; whether by autograd."""
        own = self.description["operation"]
        if direction == "forward" and own in FORWARD:
            raise UsageError(f"{self.description['name']!r} is a backward pass ({own}) itself")
        if direction != "backward" or own in FORWARD:
            return False
        if own not in BACKWARD:
            raise UsageError(f"the gradient of {own} is not judged; of {', '.join(BACKWARD)} it is")
        if "backward" in self.registration.declaration.without:
            raise UsageError(f"{self.description['name']!r} declares no backward pass")
        if self.registration.tensors != "torch":
            raise UsageError("gradients by autograd need a kernel of torch tensors")
        from verify.autograd import gradients_of

        self.description["operation"] = BACKWARD[own]
        features = self.description["features"]
        self.description["features"] = [f for f in features if f != "return_lse"]
        self.function = gradients_of(self.function, BACKWARD[own])
        return True

    def run(self, request: dict[str, Any], arena: Arena) -> dict[str, Any]:
        """Call the kernel once; returns shapes, formats and offsets of what came back."""
        memory = arena.view(request["arena"], request["size"])
        if self.registration.tensors == "numpy":
            from verify.tensors_numpy import address, from_memory, poison, to_bytes
        elif self.registration.tensors == "raw":
            from verify.tensors_raw import address, from_memory, poison, to_bytes
        else:
            from verify.tensors_torch import address, from_memory, poison, to_bytes
        tensors = {
            t["name"]: from_memory(memory, t, request["device"], _layout(request, t["name"]))
            for t in request["tensors"]
        }
        positional, keywords = _arguments(request, tensors, self.description["operation"])
        if self.differentiated:
            keywords["wanted"] = tuple(request["wanted"])
        if self.registration.tensors == "raw":
            keywords["outputs"] = request["shapes"]
        poison(request["sizes"], request["device"])
        with _around(self.registration.tensors, request["layout"]) as seen:
            result, reading = timed(
                lambda: self.function(*positional, **keywords),
                request["device"],
                bool(request.get("peak")),
            )
        outputs = result if isinstance(result, (tuple, list)) else (result,)
        offset = request["output_offset"]
        answers = []
        for output in outputs[: request["outputs"]]:
            facts, raw = to_bytes(output)
            if raw is not None and offset + len(raw) <= request["size"]:
                memory[offset : offset + len(raw)] = raw
                facts["offset"] = offset
                offset += -(-len(raw) // 64) * 64
            answers.append(facts)
        alias = self._alias([address(t) for t in tensors.values()], outputs, address)
        return {
            "outputs": answers,
            "returned": len(outputs),
            "alias": alias,
            "operators": None if seen is None else sorted(seen),
            **asdict(reading),
        }

    def _alias(
        self,
        inputs: list[int | None],
        outputs: Sequence[Any],
        address: Callable[[Any], int | None],
    ) -> str | None:
        """What an output shares its memory with, or None.

        Outputs are kept for a while, so that none of them can be freed and its address come back.
        """
        earlier = {where for where, _ in self._kept}
        for output in outputs:
            where = address(output)
            if where is None:
                continue
            if where in inputs:
                return "an input"
            if where in earlier:
                return "the output of an earlier call"
            self._kept.append((where, output))
        return None


def _around(tensors: str, layout: str) -> AbstractContextManager[set[str] | None]:
    """What a call is run in: 'filled' memory, or 'watched' operators; only torch has a way to."""
    if tensors == "torch" and layout == "filled":
        from verify.tensors_torch import filled_memory

        return filled_memory()
    if tensors == "torch" and layout == "watched":
        from verify.operators import watched

        return watched()
    return nullcontext()


def _layout(request: dict[str, Any], name: str) -> str:
    """How a tensor lies in memory; `extras-...` is about masks, biases and sinks only."""
    layout = str(request["layout"])
    if layout in ("filled", "watched"):
        return "contiguous"
    if not layout.startswith("extras-"):
        return layout
    plain = any(name in arguments for arguments in ARGUMENTS.values())
    return "contiguous" if plain else layout.removeprefix("extras-")


def _arguments(
    request: dict[str, Any], tensors: dict[str, Any], operation: str
) -> tuple[list[Any], dict[str, Any]]:
    order = ARGUMENTS[operation]
    keywords = {name: value for name, value in tensors.items() if name not in order}
    options = dict(request["options"])
    if options.get("window") is not None:
        options["window"] = tuple(options["window"])
    return [tensors[name] for name in order], {**keywords, **options}


def load(spec: str, operation: str | None = None, direction: str | None = None) -> Loaded:
    """A registered kernel, `package.module:function`, `path/to/file.py:function`, or
    `path/to/kernel.so[:function]`, `command:PROGRAM ARGUMENT...`;
    or the gradient of one, by autograd, with the direction `backward`.

    Raises      UsageError for what does not exist, UnusableError for what cannot be imported.
    """
    from verify.kernels import find

    if command_kernel.is_command(spec) or c_kernel.is_library(spec):
        if direction == "backward":
            raise UsageError(f"{spec}: only Python kernels have gradients by autograd")
        foreign = command_kernel.load if command_kernel.is_command(spec) else c_kernel.load
        function, registration = foreign(spec, operation)
        return Loaded(function, registration, spec, operation)
    if ":" not in spec.split("[")[0]:
        function, registration = find(spec)
        return Loaded(function, registration, spec, operation, direction)
    source, _, attribute = spec.rpartition(":")
    module = (
        _import_file(source) if source.endswith(".py") or "/" in source else _import_module(source)
    )
    function = module
    for part in attribute.split("."):
        if not hasattr(function, part):
            raise UsageError(f"{source!r} has no {attribute!r}; it has: {_callables(module)}")
        function = getattr(function, part)
    if not callable(function):
        raise UsageError(f"{spec!r} is {type(function).__name__}, not a function")
    registration = getattr(function, ATTRIBUTE, Registration(Declaration()))
    return Loaded(function, registration, spec, operation, direction)


def _callables(module: Any) -> str:
    names = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
    return ", ".join(sorted(names)[:20]) or "no functions"


def _import_file(source: str) -> Any:
    path = Path(source)
    if not path.is_file():
        raise UsageError(f"no such file: {source}")
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{source} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    return _execute(lambda: spec.loader.exec_module(module), source, module)  # type: ignore[union-attr]


def _import_module(source: str) -> Any:
    try:
        found = importlib.util.find_spec(source)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise UsageError(f"no module named {source!r}; is it installed, and is the folder right?")
    return _execute(lambda: importlib.import_module(source), source)


def _execute(action: Callable[[], Any], source: str, module: Any = None) -> Any:
    try:
        result = action()
    except AttncertError:
        raise
    except BaseException as error:  # a module may raise anything, SystemExit included
        raise UnusableError(f"importing {source} failed: {_one_line(error)}") from error
    return result if module is None else module


def limit_memory(limit_bytes: int) -> None:
    """Make an allocation beyond the limit fail here instead of taking the machine down."""
    if limit_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))


def interpret_triton() -> None:
    """Without a GPU, Triton kernels run under its interpreter; triton reads this when imported."""
    import torch

    if not torch.cuda.is_available():
        os.environ.setdefault("TRITON_INTERPRET", "1")


def start(descriptor: int, limit_bytes: int) -> None:
    """Entry point: `descriptor` is our end of the socket; stdout goes to stderr."""
    os.dup2(2, 1)
    limit_memory(limit_bytes)
    interpret_triton()
    with socket.socket(fileno=descriptor) as connection:
        main(connection)
