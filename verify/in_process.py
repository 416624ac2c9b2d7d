"""The same conversation as with a worker, held in this process: for debugging and closures.

Nothing is isolated here: a certificate says so, and time and memory limits do not hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from verify import errors
from verify.declaration import ATTRIBUTE, Declaration, Registration
from verify.errors import KernelError
from verify.worker import Worker
from verify.worker_process import Arena, Loaded, answer


class InProcess(Worker):
    """A worker without a process.

    functions   kernels by name that cannot be imported elsewhere; other names are loaded as usual.
    """

    def __init__(self, functions: dict[str, Callable[..., Any]] | None = None) -> None:
        super().__init__()
        self._kernels: dict[str, Loaded] = {}
        self._arena = Arena()
        self._functions: dict[str, tuple[Callable[..., Any], Registration]] = {}
        for name, function in (functions or {}).items():
            registration = getattr(function, ATTRIBUTE, Registration(Declaration()))
            self._functions[name] = function, registration

    def load(
        self, kernel: str, operation: str | None = None, direction: str | None = None
    ) -> dict[str, Any]:
        if kernel not in self._functions:
            return super().load(kernel, operation, direction)
        function, registration = self._functions[kernel]
        self._kernels[kernel] = Loaded(function, registration, kernel, None, direction)
        return self._kernels[kernel].description

    def _request(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        found = answer(request, self._kernels, self._arena)
        if "error" in found:
            raise getattr(errors, str(found["kind"]), KernelError)(found["error"])
        return found
