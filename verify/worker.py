"""Worker: the process in which a kernel lives, as the parent sees it.

The parent writes the bits of the inputs into a mapped file, asks for one call, and reads raw bytes
back.  The truth never enters that process.  What a kernel can do to it (raise, hang, crash, call
os._exit, ask for 40 GB) costs one case: the parent reports what happened and starts a fresh worker.
"""

from __future__ import annotations

import json
import mmap
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import verify
from verify import errors
from verify.case import Inputs
from verify.errors import IntegrityError, KernelError, UnusableError
from verify.formats import ALIASES, FORMATS, Bits, Format

START_SECONDS = 120.0
_ALIGN = 64
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Output:
    """Raw bits of one output tensor, with the format in which they came."""

    format: Format
    bits: Bits

    @property
    def values(self) -> NDArray[np.float64]:
        return self.format.decode(self.bits)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.bits.shape


@dataclass(frozen=True)
class Answer:
    """What one call of a kernel gave back.

    seconds  of the call, by the worker's clock
    alias    what an output shares its memory with (an input, an earlier output), or None
    device_seconds, peak_bytes   see `verify.stopwatch.Reading`
    operators   torch operators that the call used, where it was watched
    """

    outputs: tuple[Output, ...]
    seconds: float
    alias: str | None = None
    device_seconds: float | None = None
    peak_bytes: int | None = None
    operators: tuple[str, ...] | None = None


class Worker:
    """One worker process; use as a context manager. Restarts itself after a crash or a hang.

    seconds       time limit of one call.
    memory_bytes  limit of the address space (0: none; CUDA needs none).
    threads       threads of OpenMP and BLAS in that process (0: as the environment says).
    """

    def __init__(self, *, seconds: float = 60.0, memory_bytes: int = 0, threads: int = 0) -> None:
        self.seconds = seconds
        self.memory_bytes = memory_bytes
        self.threads = threads
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._buffer = b""
        self._folder: Path | None = None
        self._map: mmap.mmap | None = None
        self._loaded: list[dict[str, Any]] = []
        self.restarts = 0

    @property
    def process_id(self) -> int | None:
        """Process, session and group id of the running worker."""
        return self._process.pid if self._process else None

    @property
    def folder(self) -> Path | None:
        """The worker's private folder."""
        return self._folder

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process and everything it started; remove its private folder."""
        self._kill()
        if self._map is not None:
            self._map.close()
            self._map = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def restart(self) -> None:
        """End the process; the next call starts a fresh one with the same kernels loaded."""
        self._kill()

    def list_kernels(self) -> list[dict[str, Any]]:
        """Descriptions of all shipped kernels."""
        kernels = self._request({"do": "list"}, START_SECONDS)["kernels"]
        return list(kernels)

    def libraries(self) -> list[str]:
        """Packages and files whose native code the worker has loaded."""
        return [
            str(name) for name in self._request({"do": "libraries"}, START_SECONDS)["libraries"]
        ]

    def load(
        self, kernel: str, operation: str | None = None, direction: str | None = None
    ) -> dict[str, Any]:
        """Import a kernel in the worker; returns its description.

        direction   'backward': its gradient, by autograd where it is a forward pass.

        Raises      UsageError, UnusableError as the worker reports them.
        """
        request = {"do": "load", "kernel": kernel, "operation": operation, "direction": direction}
        description: dict[str, Any] = self._request(request, START_SECONDS)["description"]
        self._loaded = [r for r in self._loaded if r["kernel"] != kernel] + [request]
        return description

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
        peak: bool = False,
    ) -> Answer:
        """Call the kernel once.

        Shapes      `shapes`: shape and widest format expected of each output; `wanted`: the names
                    of the gradients.
        `peak`      measure the memory that the call needs (and disturb its time).
        Raises      KernelError for an exception, a crash, a hang, a wrong count, type or shape;
                    IntegrityError where an input was changed.
        """
        if layout == "watched":
            self._request({"do": "watch"}, START_SECONDS)
        request = self._write(inputs, shapes)
        nonce = secrets.token_hex(8)
        request |= {"do": "run", "kernel": kernel, "options": options, "device": device}
        request |= {"layout": layout, "wanted": wanted, "peak": peak}
        request |= {"nonce": nonce, "outputs": len(shapes)}
        request["sizes"] = [_bytes(shape, fmt) for shape, fmt in shapes]
        names = wanted or ("output", "lse")
        request["shapes"] = [
            {"name": name, "shape": list(shape), "format": fmt.name}
            for name, (shape, fmt) in zip(names, shapes, strict=False)
        ]
        before = bytes(self._memory()[: request["output_offset"]])
        answer = self._request(request, self.seconds)
        if answer.get("nonce") != nonce:
            raise IntegrityError("the answer does not carry this call's nonce: it was forged")
        if device == "cpu" and bytes(self._memory()[: request["output_offset"]]) != before:
            raise IntegrityError("the kernel changed its inputs")
        outputs = self._outputs(answer, shapes)
        return Answer(
            outputs,
            float(answer["seconds"]),
            answer["alias"],
            answer.get("device_seconds"),
            answer.get("peak_bytes"),
            None if answer.get("operators") is None else tuple(map(str, answer["operators"])),
        )

    # -- the arena ---------------------------------------------------------------------------

    def _memory(self) -> mmap.mmap:
        assert self._map is not None
        return self._map

    def _write(
        self, inputs: Inputs, shapes: list[tuple[tuple[int, ...], Format]]
    ) -> dict[str, Any]:
        """Lay the inputs out, poison the place of the outputs; returns the request's layout."""
        parts: list[tuple[str, str, NDArray[Any]]] = [
            (name, tensor.format.name, np.ascontiguousarray(tensor.bits))
            for name, tensor in inputs.tensors.items()
        ]
        if inputs.mask is not None:
            parts.append(("mask", "bool", np.ascontiguousarray(inputs.mask)))
        for name, numbers in inputs.integers.items():
            parts.append((name, str(numbers.dtype), np.ascontiguousarray(numbers)))
        offset = 0
        tensors: list[dict[str, Any]] = []
        for name, fmt, array in parts:
            tensors.append({"name": name, "format": fmt, "shape": array.shape, "offset": offset})
            offset += -(-array.nbytes // _ALIGN) * _ALIGN
        room = sum(_ALIGN + 8 * int(np.prod(shape, dtype=np.int64)) for shape, _ in shapes)
        self._grow(offset + room)
        memory = self._memory()
        for entry, (_, _, array) in zip(tensors, parts, strict=True):
            start = entry["offset"]
            memory[start : start + array.nbytes] = array.tobytes()
        memory[offset : offset + room] = os.urandom(16) * (room // 16) + b"\xff" * (room % 16)
        return {
            "arena": str(self._arena_path()),
            "size": offset + room,
            "tensors": tensors,
            "output_offset": offset,
        }

    def _arena_path(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="attncert-"))
        return self._folder / "arena"

    def _grow(self, size: int) -> None:
        if self._map is not None and len(self._map) >= size:
            return
        path = self._arena_path()
        with path.open("ab") as file:
            file.truncate(max(size, 1 << 20))
        if self._map is not None:
            self._map.close()
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)

    def _outputs(
        self, answer: dict[str, Any], shapes: list[tuple[tuple[int, ...], Format]]
    ) -> tuple[Output, ...]:
        facts = answer["outputs"]
        if len(facts) < len(shapes):
            raise KernelError(f"returned {answer['returned']} outputs instead of {len(shapes)}")
        return tuple(self._output(f, shape) for f, (shape, _) in zip(facts, shapes, strict=False))

    def _output(self, facts: dict[str, Any], shape: tuple[int, ...]) -> Output:
        if facts["type"] != "tensor":
            raise KernelError(f"returned {facts['type']} instead of a plain tensor")
        name = ALIASES.get(facts["format"], facts["format"])
        if name not in FORMATS:
            raise KernelError(
                f"returned dtype {facts['format']}, which is no floating-point format"
            )
        if tuple(facts["shape"]) != tuple(shape):
            raise KernelError(f"returned shape {tuple(facts['shape'])} instead of {tuple(shape)}")
        fmt = FORMATS[name]
        count = int(np.prod(shape, dtype=np.int64))
        if "offset" not in facts:
            raise KernelError("the output could not be read as a strided tensor")
        raw = self._memory()[facts["offset"] : facts["offset"] + count * fmt.container().itemsize]
        return Output(fmt, np.frombuffer(raw, dtype=fmt.container).reshape(shape))

    # -- the process -------------------------------------------------------------------------

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        root = str(Path(verify.__file__).resolve().parent.parent)
        # -P, and folders of the user last: no file beside the kernel can stand in for a library.
        program = (
            "import sys; sys.path += sys.argv[3:];"
            "from verify.worker_process import start; start(int(sys.argv[1]), int(sys.argv[2]))"
        )
        with (self._arena_path().parent / "stderr").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-c",
                    program,
                    str(theirs.fileno()),
                    str(self.memory_bytes),
                    root,
                    str(Path.cwd()),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=self._environment(),
                start_new_session=True,
            )
        theirs.close()
        self._socket = ours
        self._buffer = b""

    def _environment(self) -> dict[str, str]:
        own = {"TMPDIR": str(self._arena_path().parent)}
        if self.threads:
            own |= dict.fromkeys(_THREAD_VARIABLES, str(self.threads))
        return {**os.environ, **own}

    def _request(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        if self._process is None:
            self._start()
            for load in self._loaded:
                self._exchange(load, START_SECONDS)
        answer = self._exchange(request, seconds)
        if "error" in answer:
            kind = getattr(errors, str(answer["kind"]), KernelError)
            raise kind(answer["error"])
        return answer

    def _exchange(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        assert self._socket is not None
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            line = self._receive(time.monotonic() + seconds)
            answer = json.loads(line)
        except TimeoutError:
            self._restart()
            raise KernelError(f"did not answer within {seconds:g} s and was stopped") from None
        except (ConnectionError, EOFError, ValueError):
            ending = self._ending()
            self._restart()
            raise KernelError(f"the worker process {ending}") from None
        if not isinstance(answer, dict):
            self._restart()
            raise KernelError("the worker process answered nonsense")
        return answer

    def _receive(self, deadline: float) -> bytes:
        assert self._socket is not None
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._socket], [], [], max(left, 0))
            if not ready:
                raise TimeoutError
            received = self._socket.recv(1 << 16)
            if not received:
                raise EOFError
            self._buffer += received
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _ending(self) -> str:
        assert self._process is not None
        try:
            status = self._process.wait(5)
        except subprocess.TimeoutExpired:
            return "closed its connection"
        if status < 0:
            return f"was ended by {signal.Signals(-status).name}"
        return f"ended with exit status {status}{self._last_words()}"

    def _last_words(self) -> str:
        if self._folder is None:
            return ""
        text = (self._folder / "stderr").read_text(errors="replace").strip()
        return f": {text.splitlines()[-1][:300]}" if text else ""

    def _restart(self) -> None:
        self._kill()
        self.restarts += 1

    def _kill(self) -> None:
        if self._process is None:
            return
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self._process.kill()
        self._process.wait()
        self._process = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _bytes(shape: tuple[int, ...], fmt: Format) -> int:
    return int(np.prod(shape, dtype=np.int64)) * fmt.container().itemsize


def load_or_explain(
    worker: Worker, kernel: str, operation: str | None, direction: str | None = None
) -> dict[str, Any]:
    """`Worker.load`, with a crash during the import reported as an unusable kernel."""
    try:
        return worker.load(kernel, operation, direction)
    except KernelError as error:
        raise UnusableError(f"loading {kernel} failed: {error}") from None
