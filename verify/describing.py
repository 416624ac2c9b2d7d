"""Describing: what the worker tells of a kernel: signature, files, versions, environment."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from verify.declaration import ATTRIBUTE, SIGNATURE_FEATURES, Declaration, Registration
from verify.errors import UsageError
from verify.operation import ARGUMENTS

# Names that people use for the same arguments; matched by position.
KNOWN_ALIASES = {
    "query": "q",
    "key": "k",
    "value": "v",
    "input": "x",
    "logits": "x",
    "scores": "x",
    "a": "x",
    "dout": "do",
    "grad_out": "do",
    "grad_output": "do",
    "grad": "dy",
}


def describe(
    function: Callable[..., Any],
    name: str,
    registration: Registration | None = None,
    operation: str | None = None,
) -> dict[str, Any]:
    """What the parent may know of a kernel, as plain data."""
    if registration is None:
        registration = getattr(function, ATTRIBUTE, Registration(Declaration()))
    assert isinstance(registration, Registration)
    factory = registration.factory and getattr(function, ATTRIBUTE, None) is registration
    features: list[str] = []
    if registration.claims is not None:
        features = list(registration.claims)
    elif not factory:
        found, features = read_signature(function, operation or registration.operation)
        operation = operation or registration.operation or found
    return {
        "name": name,
        "operation": operation or registration.operation,
        "features": features,
        "declaration": registration.declaration.to_json(),
        "formats": list(registration.formats),
        "devices": list(registration.devices),
        "summary": registration.summary or _first_line(function),
        "unavailable": registration.unavailable() if registration.unavailable else None,
        "expected": registration.expected,
        "refuted": dict(registration.refuted),
        "libraries": list(registration.libraries),
        "factory": factory,
        "way": registration.way,
        "identity": _foreign_identity(registration)
        if registration.files
        else _identity(function, registration.libraries),
        "environment": environment(),
    }


def _first_line(function: Callable[..., Any]) -> str:
    return (inspect.getdoc(function) or "").partition("\n")[0]


def read_signature(function: Callable[..., Any], operation: str | None) -> tuple[str, list[str]]:
    """The operation and the features that a signature claims.

    Raises      UsageError for a required argument that no operation has.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise UsageError("the function has no readable signature; wrap it in a def") from None
    names = [KNOWN_ALIASES.get(p.name, p.name) for p in parameters]
    found = operation or _operation_of(names)
    if found is None:
        raise UsageError(
            f"cannot tell the operation from the parameters ({', '.join(names)}): "
            "attention starts with q, k, v, its gradient with q, k, v, do, softmax with x and its "
            "gradient with x, dy, cross-entropy with x, target; or pass --operation"
        )
    first = len(ARGUMENTS[found])
    for p in parameters[first:]:
        required = p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        if required and p.name not in SIGNATURE_FEATURES:
            raise UsageError(f"required argument {p.name!r} means nothing to us; give it a default")
    named = {p.name for p in parameters[first:] if p.kind is not p.VAR_KEYWORD}
    return found, [f for f in SIGNATURE_FEATURES if f in named]


def _operation_of(names: list[str]) -> str | None:
    """The operation whose positional arguments these are, the longest match first."""
    # softmax stands for every operation of x alone, its gradient for theirs
    told = [name for name in ARGUMENTS if not name.startswith(("log_softmax", "logsumexp"))]
    for name in sorted(told, key=lambda name: -len(ARGUMENTS[name])):
        arguments = list(ARGUMENTS[name])
        if names[: len(arguments)] == arguments:
            return name
    return None


def _foreign_identity(registration: Registration) -> dict[str, Any]:
    """The files that a foreign kernel is made of: the first by name, all in the digest."""
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in registration.files]
    joined = hashlib.sha256("".join(digests).encode()).hexdigest()
    identity: dict[str, Any] = {
        "file": registration.files[0].name,
        "sha256": digests[0] if len(digests) == 1 else joined,
    }
    if len(digests) > 1:
        identity["files"] = {p.name: d for p, d in zip(registration.files, digests, strict=True)}
    return identity | ({"version": registration.version} if registration.version else {})


def _identity(function: Callable[..., Any], libraries: Sequence[str] = ()) -> dict[str, Any]:
    target = inspect.unwrap(function)
    identity: dict[str, Any] = {
        "module": getattr(target, "__module__", None),
        "function": getattr(target, "__qualname__", type(target).__name__),
    }
    try:
        path = Path(inspect.getfile(target))
        identity["file"] = path.name
        identity["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    except (TypeError, OSError):
        identity["file"] = None
    packages = ((identity["module"] or "").partition(".")[0], *libraries)
    identity["package"] = {name: version for name in packages if (version := _version(name))}
    return identity


def _version(distribution: str) -> str | None:
    """The installed version, or None."""
    try:
        return importlib.metadata.version(distribution)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None


def libraries() -> list[str]:
    """What native code this process has loaded: packages, and files that belong to none.

    Special     empty where the system does not tell (it is Linux that does).
    """
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    paths = {line.split(maxsplit=5)[5] for line in lines if line.count(" ") >= 5 and ".so" in line}
    return sorted({_owner(path) for path in paths} - {""})


def _owner(path: str) -> str:
    """The package of a shared library, else its file name; nothing for Python's own and libc."""
    for folder in ("site-packages/", "dist-packages/"):
        _, found, rest = path.partition(folder)
        if found:
            return rest.partition("/")[0].removesuffix(".libs")
    system = path.startswith(("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"))
    return "" if system or path.startswith(sys.base_prefix) else Path(path).name


_ENVIRONMENT: dict[str, Any] = {}


def environment() -> dict[str, Any]:
    """Versions and settings of this process that can change a kernel's bits."""
    if not _ENVIRONMENT:
        import numpy as np
        import torch

        _ENVIRONMENT.update(
            python=platform.python_version(),
            platform=platform.platform(),
            machine=platform.machine(),
            numpy=np.__version__,
            torch=torch.__version__,
            torch_threads=torch.get_num_threads(),
            cpu_capability=torch.backends.cpu.get_cpu_capability(),
            matmul_precision=torch.get_float32_matmul_precision(),
            subnormals="flushed" if float(np.float64(5e-324) * np.float64(1)) == 0 else "kept",
            cuda=torch.cuda.get_device_name(0) if torch.cuda.is_available() else None,
        )
    return dict(_ENVIRONMENT)
