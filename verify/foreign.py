"""Foreign: what a kernel that is no Python function says of itself, checked.

Such a kernel has no signature, so it describes itself by plain data (JSON): operation, features,
formats, declarations.  What it does not name it does not claim.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verify.declaration import SIGNATURE_FEATURES, Declaration, Registration
from verify.errors import UsageError
from verify.operation import OPERATIONS, direction_of
from verify.tensor_files import DTYPES

KEYS = ("operation", "features", "formats", "declare", "summary", "version")
FORMATS = ("fp16", "bf16", "fp32")
FORWARD = tuple(name for name in OPERATIONS if direction_of(name) == "forward")


def described(
    data: Any, source: str, operation: str | None, *, way: str, files: tuple[Path, ...]
) -> Registration:
    """The registration of a kernel from its description.

    operation   the one that the user named, which must not contradict the description
    Raises      UsageError for an unknown key, operation, feature, format or declaration.
    """
    if not isinstance(data, Mapping):
        raise UsageError(f"{source} describes itself by {type(data).__name__}, not a JSON object")
    unknown = sorted(set(data) - set(KEYS))
    if unknown:
        raise UsageError(f"{source} describes {unknown[0]!r}; it can: {', '.join(KEYS)}")
    told = data.get("operation", operation)
    if told is None:
        raise UsageError(f"{source} does not say its operation; give --operation")
    if operation is not None and told != operation:
        raise UsageError(f"{source} says that it computes {told}, not {operation}")
    _among([told], OPERATIONS if way == "command" else FORWARD, "operation", source)
    features = _words(data.get("features", ["scale"] if "attention" in str(told) else []), source)
    _among(features, SIGNATURE_FEATURES, "feature", source)
    formats = _words(data.get("formats", list(FORMATS)), source)
    _among(formats, [name for name in DTYPES if name not in ("bool", "uint8")], "format", source)
    declared = data.get("declare", {})
    if not isinstance(declared, Mapping):
        raise UsageError(f"{source}: `declare` must be an object, not {declared!r}")
    declaration = Declaration.from_json(declared)
    if way == "command":  # a file has no strides
        lacking = tuple(sorted({*declaration.without, "strides"}))
        declaration = declaration.but(without=lacking)
    return Registration(
        declaration,
        operation=told,
        formats=formats,
        devices=("cpu",),
        summary=str(data.get("summary", "")),
        tensors="raw",
        claims=features,
        way=way,
        files=files,
        version=str(data.get("version", "")),
    )


def parsed(text: str, source: str) -> Any:
    """A description as text. Raises UsageError where it is no JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"{source} describes itself by no JSON: {error}") from None


def _words(found: Any, source: str) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        raise UsageError(f"{source}: {found!r} should be a list of words")
    return tuple(found)


def _among(words: Any, known: Any, what: str, source: str) -> None:
    for word in words:
        if word not in known:
            raise UsageError(f"{source}: unknown {what} {word!r}; known: {', '.join(known)}")
