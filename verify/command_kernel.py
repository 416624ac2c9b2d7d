"""Command kernel: a program that reads requests on stdin and answers on stdout, one JSON line each.

Tensors are safetensors files in a private folder.  The program is started once and asked many
times; it lives in the process group of the worker, so that what ends the worker ends it as well.
`docs/how-to/command-kernels.md` describes the conversation.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from verify.declaration import Registration
from verify.errors import AttncertError, KernelError, UnusableError, UsageError
from verify.foreign import described
from verify.operation import ARGUMENTS
from verify.tensor_files import Stored, read_tensors, serialised
from verify.tensors_raw import Raw

PREFIX = "command:"
PROTOCOL = 1


def is_command(spec: str) -> bool:
    """Whether a kernel is named as `command:PROGRAM ARGUMENT...`."""
    return spec.startswith(PREFIX)


def load(spec: str, operation: str | None) -> tuple[Callable[..., Any], Registration]:
    """The program as Python calls it, and what it says of itself.

    Raises      UsageError for a command line that names no program, UnusableError for one that does
                not describe itself.
    """
    line = spec.removeprefix(PREFIX)
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"command {line!r} cannot be read: {error}") from None
    program = shutil.which(words[0]) if words else None
    if program is None:
        raise UsageError(f"command {line!r} names no program that can be run here")
    files = (*(Path(w) for w in words[1:] if Path(w).is_file()), Path(program))
    conversation = _STARTED.setdefault(line, Conversation(words))
    try:
        told = conversation.ask({"do": "describe", "attncert": PROTOCOL})
    except KernelError as error:
        raise UnusableError(f"command {line!r} does not describe itself: {error}") from None
    told.pop("id", None)
    registration = described(told, f"command {line!r}", operation, way="command", files=files)
    name = registration.operation

    def kernel(*tensors: Raw, outputs: list[dict[str, Any]], **options: Any) -> tuple[Raw, ...]:
        inputs = dict(zip(ARGUMENTS[str(name)], tensors, strict=True))
        inputs |= {n: options.pop(n) for n in ("mask", "bias", "sinks") if n in options}
        return conversation.run(str(name), inputs, options, outputs)

    return kernel, registration


class Conversation:
    """The running program, started when it is first asked and again after it has ended."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._made: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._count = 0

    @property
    def _folder(self) -> Path:
        """The private folder, inside that of the worker."""
        if self._made is None:
            self._made = Path(tempfile.mkdtemp(prefix="command-"))
        return self._made

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request and its answer.

        Raises      KernelError where the program ends, refuses, or answers anything else.
        """
        self._count += 1
        asked = {"id": self._count, **request}
        process = self._running()
        try:
            _pipe(process.stdin).write(json.dumps(asked).encode() + b"\n")
            _pipe(process.stdin).flush()
            line = _pipe(process.stdout).readline()
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            raise KernelError(f"the command {self._ending()}")
        answer = self._understood(line)
        if answer.get("id") != self._count:
            raise self._nonsense(line, f"the id of the request is {self._count}")
        if "error" in answer:
            raise KernelError(f"the command says: {str(answer['error'])[:500]}")
        return answer

    def run(
        self,
        operation: str,
        inputs: dict[str, Raw],
        options: dict[str, Any],
        wanted: list[dict[str, Any]],
    ) -> tuple[Raw, ...]:
        """Call the kernel once: inputs and outputs are files, which are removed afterwards."""
        source = self._folder / f"{self._count + 1}-inputs.safetensors"
        target = self._folder / f"{self._count + 1}-outputs.safetensors"
        tensors = {name: Stored(raw.format, raw.bits) for name, raw in inputs.items()}
        source.write_bytes(serialised(tensors))
        names = [told["name"] for told in wanted]
        request = {
            "do": "run",
            "operation": operation,
            "options": options,
            "inputs": str(source),
            "outputs": str(target),
            "wanted": {w["name"]: {"format": w["format"], "shape": w["shape"]} for w in wanted},
        }
        try:
            self.ask(request)
            found = self._returned(target)
        finally:
            source.unlink(missing_ok=True)
            target.unlink(missing_ok=True)
        for name in names:
            if name not in found:
                raise KernelError(f"the outputs have no tensor {name!r}, only {sorted(found)}")
        return tuple(Raw(found[name].format, found[name].bits) for name in names)

    def _returned(self, path: Path) -> dict[str, Stored]:
        if not path.is_file():
            raise KernelError("the command answered, but wrote no file of outputs")
        try:
            return read_tensors(path)
        except AttncertError as error:
            raise KernelError(str(error)) from None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            with (self._folder / "stderr").open("wb") as log:
                self._process = subprocess.Popen(
                    self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
                )
        return self._process

    def _understood(self, line: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(line)
        except ValueError:
            raise self._nonsense(line, "an answer is one JSON object in one line") from None
        if not isinstance(answer, dict):
            raise self._nonsense(line, "an answer is one JSON object in one line")
        return answer

    def _nonsense(self, line: bytes, rule: str) -> KernelError:
        """The error for an answer that cannot be used; the program starts anew after it."""
        self._end()
        text = line.decode(errors="replace").strip()[:120]
        return KernelError(f"the command answered {text!r}; {rule}")

    def _ending(self) -> str:
        """How the program ended, with the last line that it wrote on stderr."""
        assert self._process is not None
        try:
            status = self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._end()
            return "closed its output"
        self._end()
        how = f"was ended by signal {-status}" if status < 0 else f"ended with exit status {status}"
        lines = (self._folder / "stderr").read_text(errors="replace").strip().splitlines()
        return f"{how}: {lines[-1][:300]}" if lines else how

    def _end(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                _pipe(pipe).close()
            except OSError:
                continue
        self._process = None


# One program for each command line, however often it is loaded.
_STARTED: dict[str, Conversation] = {}


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
