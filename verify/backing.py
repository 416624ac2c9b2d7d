"""Backing: the selftest that stands behind a certificate, kept under a digest of the code.

A summary belongs to one state of the source text of `verify` and `references`, of the libraries
and of the machine; another state has none until `attncert selftest` has been run there.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import verify
from verify.certificate import write_atomically

NONE = "no selftest backs this certificate: run `attncert selftest` first"
LIBRARIES = ("numpy", "torch", "mpmath", "python-flint", "numba")
_SOURCES = ("*.py", "*.json", "*.safetensors")


@cache
def digest(device: str = "cpu") -> str:
    """SHA-256 over the sources, versions and machine that decide what a selftest finds."""
    total = hashlib.sha256()
    root = Path(verify.__file__).resolve().parent.parent
    for package in ("references", "verify"):
        for pattern in _SOURCES:
            for path in sorted((root / package).rglob(pattern)):
                if "report" not in path.parts and path.name != "published.json":
                    total.update(str(path.relative_to(root)).encode())
                    total.update(path.read_bytes())
    total.update(json.dumps([device, *_versions()]).encode())
    return total.hexdigest()


def _versions() -> list[str]:
    found = [platform.python_version(), platform.machine()]
    for name in LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    return found


def _path(device: str) -> Path:
    folder = os.environ.get("ATTNCERT_CACHE") or Path.home() / ".cache/attncert"
    return Path(folder) / f"selftest-{digest(device)[:32]}.json"


def keep(summary: Mapping[str, Any], device: str = "cpu") -> Path | None:
    """Keep the summary of a selftest that passed; None where the folder cannot be written."""
    path = _path(device)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(dict(summary), indent=1) + "\n")
    except OSError:
        return None
    return path


def summary(device: str = "cpu") -> dict[str, Any] | None:
    """The summary of the selftest of exactly this code, or None."""
    try:
        found = json.loads(_path(device).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("digest") == digest(device) else None
