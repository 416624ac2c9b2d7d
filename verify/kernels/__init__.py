"""Kernels under test: textbook ones, and adapters to other people's. One module each.

A new kernel is a new file here with a function marked by `kernel`; nothing else has to be edited.
This package and everything below it is imported by the worker process only: it never sees a truth.

    @kernel(name="torch-softmax", operation="softmax", summary="torch.softmax", model="flash")
    def softmax(x): return torch.softmax(x, dim=-1)
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeVar

from verify.declaration import ATTRIBUTE, Declaration, Registration, check_names
from verify.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])
_REGISTRY: dict[str, Callable[..., Any]] = {}
_CALL = re.compile(r"^(?P<name>[a-z0-9-]+)(\[(?P<options>[^\]]*)\])?$")


def kernel(
    *,
    name: str,
    operation: str,
    summary: str,
    formats: tuple[str, ...] = ("fp16", "bf16", "fp32"),
    devices: tuple[str, ...] = ("cpu", "cuda"),
    tensors: Literal["torch", "numpy"] = "torch",
    factory: bool = False,
    expected: Literal["pass", "fail"] = "pass",
    refuted: Mapping[str, str] | None = None,
    unavailable: Callable[[], str | None] | None = None,
    libraries: tuple[str, ...] = (),
    **declared: Any,
) -> Callable[[F], F]:
    """Register a kernel under a name.

    factory      the function takes keyword options and returns the kernel (itself perhaps marked
                 with `declare`); it is then called `name[option=value,...]`.
    expected     'fail' for kernels that are shipped because they must be refuted (naive).
    refuted      per format the reason, in one sentence, why somebody else's kernel is known to be
                 refuted in it: a finding, with its reproduction in reports/findings.
    unavailable  returns the reason why the kernel cannot run here, or None.
    libraries    distributions that the kernel runs; a certificate records their versions.
    declared     fields of `Declaration`.
    """
    check_names(declared)

    def register(function: F) -> F:
        if name in _REGISTRY:
            raise ValueError(f"two kernels are called {name!r}")
        registration = Registration(
            Declaration(**declared),
            name=name,
            operation=operation,
            formats=formats,
            devices=devices,
            summary=summary,
            factory=factory,
            unavailable=unavailable,
            tensors=tensors,
            expected=expected,
            refuted=dict(refuted or {}),
            libraries=libraries,
        )
        setattr(function, ATTRIBUTE, registration)
        _REGISTRY[name] = function
        return function

    return register


def load_all() -> dict[str, Callable[..., Any]]:
    """Import every kernel and control module; returns the registry by name."""
    for module in _modules():
        importlib.import_module(module)
    return dict(sorted(_REGISTRY.items()))


def _modules() -> list[str]:
    """Every kernel and control module, by file name."""
    return [
        f"{package}.{entry.name}"
        for package in ("verify.kernels", "verify.controls")
        for entry in pkgutil.iter_modules(importlib.import_module(package).__path__)
    ]


def find(spec: str) -> tuple[Callable[..., Any], Registration]:
    """The kernel `name` or `name[option=value,...]` with its registration.

    Raises      UsageError for an unknown name or option.
    """
    match = _CALL.match(spec)
    function = _registered(match["name"]) if match else None
    if match is None or function is None:
        raise UsageError(
            f"unknown kernel {spec!r}: give a name from `attncert list kernels`, "
            "package.module:function or path/to/file.py:function"
        )
    registration: Registration = getattr(function, ATTRIBUTE)
    if not registration.factory:
        if match["options"]:
            raise UsageError(f"kernel {match['name']!r} takes no options in brackets")
        return function, registration
    return _made(function, registration, match["options"] or "")


def _registered(name: str) -> Callable[..., Any] | None:
    """The function of that name; modules are imported in order of likeness until one has it."""
    for module in sorted(_modules(), key=lambda m: -_likeness(m, name)):
        if name in _REGISTRY:
            break
        importlib.import_module(module)
    return _REGISTRY.get(name)


def _likeness(module: str, name: str) -> int:
    """Words of the kernel's name that occur in the module's."""
    words = set(module.rpartition(".")[2].split("_"))
    return len(words & set(name.split("-")))


def _made(
    factory: Callable[..., Any], registration: Registration, options: str
) -> tuple[Callable[..., Any], Registration]:
    pairs = [item.partition("=") for item in options.split(",") if item]
    values = {key.strip(): _value(text.strip()) for key, _, text in pairs}
    try:
        made = factory(**values)
    except TypeError as error:
        raise UsageError(f"kernel {registration.name!r}: {error}") from None
    marked: Registration | None = getattr(made, ATTRIBUTE, None)
    return made, registration if marked is None else replace(
        registration, declaration=marked.declaration
    )


def _value(text: str) -> Any:
    """A number where the text starts like one ('nan' and 'infinity' are words), else a word."""
    for convert in (int, float) if text[:2].strip("+-.")[:1].isdigit() else ():
        try:
            return convert(text)
        except ValueError:
            continue
    return {"true": True, "false": False, "none": None}.get(text, text)
