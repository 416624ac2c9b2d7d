"""Declared file: `attncert.toml`, or `[tool.attncert]` in `pyproject.toml`, beside a kernel.

What `attncert certify` would be told on the command line, kept with the code: the kernel, what it
claims and declares, and waivers.  Several kernels are a list `[[kernels]]`.

    kernel = "kernels.py:attention"
    formats = ["fp16", "bf16"]
    without = ["gqa"]
    model = "flash"

    [declare]
    corner = "top-left"

    [[waivers]]
    case = "exp_ladder/fp16/*"
    reason = "exp is a table; issue 12"
    owner = "Ada"
    expires = 2027-01-31
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

from verify import families, properties
from verify.declaration import Declaration
from verify.errors import UsageError
from verify.formats import format_named
from verify.operation import OPERATIONS
from verify.waivers import Waiver

NAME = "attncert.toml"
KEYS = ("kernel", "operation", "formats", "without", "model", "declare", "waivers")
WAIVER_KEYS = ("case", "family", "reason", "owner", "expires")


@dataclass(frozen=True)
class DeclaredKernel:
    """One kernel of the file.

    kernel     as `attncert certify` takes it, seen from the working folder
    declared   fields of `Declaration`, `without` and `model` among them
    """

    kernel: str
    operation: str | None = None
    formats: tuple[str, ...] = ()
    declared: Mapping[str, Any] = field(default_factory=dict)
    waivers: tuple[Waiver, ...] = ()


def find(folder: Path) -> Path:
    """The file of a folder. Raises UsageError where there is none."""
    for path in (folder / NAME, folder / "pyproject.toml"):
        if path.is_file() and (path.name == NAME or _table(path) is not None):
            return path
    raise UsageError(
        f"no KERNEL is given, and {folder} has neither {NAME} nor [tool.attncert] in pyproject.toml"
    )


def read(path: Path) -> tuple[DeclaredKernel, ...]:
    """The kernels of a file. Raises UsageError that names file, key and remedy."""
    table = _table(path)
    if table is None:
        raise UsageError(f"{path} has no table [tool.attncert]")
    if "kernels" not in table:
        return (_kernel(table, path, str(path)),)
    others = sorted(set(table) - {"kernels"})
    if others:
        raise UsageError(f"{path}: {others[0]!r} belongs into one of the [[kernels]]")
    entries = table["kernels"]
    if not isinstance(entries, list) or not entries:
        raise UsageError(f"{path}: `kernels` must be a list of tables: [[kernels]]")
    return tuple(_kernel(e, path, f"{path}, kernel {n}") for n, e in enumerate(entries, 1))


def chosen(path: Path, wanted: tuple[str, ...]) -> tuple[DeclaredKernel, ...]:
    """The kernels of a file with these names, or all of them where none is wanted."""
    entries = read(path)
    by_name = {entry.kernel: entry for entry in entries}
    for name in wanted:
        if name not in by_name:
            raise UsageError(f"{path} declares no kernel {name!r}; it has: {', '.join(by_name)}")
    return tuple(by_name[name] for name in wanted) if wanted else entries


def the_one(path: Path, name: str) -> DeclaredKernel:
    """The kernel of that name, or the only one of the file."""
    entries = chosen(path, (name,) if name else ())
    if len(entries) > 1:
        names = ", ".join(entry.kernel for entry in entries)
        raise UsageError(f"{path} declares several kernels; choose one by --kernel: {names}")
    return entries[0]


def _table(path: Path) -> dict[str, Any] | None:
    """The content of an attncert.toml, or the table of a pyproject.toml."""
    try:
        with path.open("rb") as file:
            data = tomllib.load(file)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from None
    if path.name != "pyproject.toml":
        return data
    found = data.get("tool", {}).get("attncert")
    return found if isinstance(found, dict) else None


def _kernel(table: Any, path: Path, where: str) -> DeclaredKernel:
    _known(table, KEYS, where)
    spec = _text(table, "kernel", where)
    operation = table.get("operation")
    if operation is not None and operation not in OPERATIONS:
        raise UsageError(
            f"{where}: unknown operation {operation!r}; known: {', '.join(OPERATIONS)}"
        )
    try:
        formats = tuple(format_named(name).name for name in _words(table, "formats", where))
        declared = _declared(table, where)
    except UsageError as error:
        text = str(error)
        raise UsageError(text if text.startswith(where) else f"{where}: {text}") from None
    entries = table.get("waivers", [])
    if not isinstance(entries, list):
        raise UsageError(f"{where}: `waivers` must be a list of tables: [[waivers]]")
    waivers = tuple(_waiver(e, f"{where}, waiver {n}") for n, e in enumerate(entries, 1))
    return DeclaredKernel(_beside(spec, path), operation, formats, declared, waivers)


def _declared(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    told = table.get("declare", {})
    if not isinstance(told, Mapping):
        raise UsageError(f"{where}: `declare` must be a table: [declare]")
    values = dict(told)
    for key in ("model", "without"):
        if key in values:
            raise UsageError(f"{where}: `{key}` stands beside `declare`, not in it")
    if "model" in table:
        values["model"] = table["model"]
    if "without" in table:
        values["without"] = tuple(_words(table, "without", where))
    if isinstance(values.get("d"), list):
        values["d"] = tuple(values["d"])
    Declaration().but(**values)
    return values


def _waiver(table: Any, where: str) -> Waiver:
    _known(table, WAIVER_KEYS, where)
    about = [key for key in ("case", "family") if key in table]
    if len(about) != 1:
        raise UsageError(f"{where} must name exactly one of `case` (a pattern) and `family`")
    name = _text(table, about[0], where)
    if about == ["family"] and name not in {*families.names(), *properties.names()}:
        raise UsageError(f"{where}: unknown family {name!r}; see `attncert list families`")
    return Waiver(
        reason=_text(table, "reason", where),
        owner=_text(table, "owner", where),
        expires=_day(table, where),
        **{about[0]: name},
    )


def _day(table: Mapping[str, Any], where: str) -> date:
    value = table.get("expires")
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    raise UsageError(f"{where}: `expires` must be a day such as 2027-01-31, not {value!r}")


def _known(table: Any, keys: tuple[str, ...], where: str) -> None:
    if not isinstance(table, Mapping):
        raise UsageError(f"{where} must be a table, not {table!r}")
    unknown = sorted(set(table) - set(keys))
    if unknown:
        raise UsageError(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(keys)}")


def _text(table: Mapping[str, Any], key: str, where: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{where}: `{key}` is missing or empty; it must be a text")
    return value


def _words(table: Mapping[str, Any], key: str, where: str) -> list[str]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise UsageError(f"{where}: `{key}` must be a list of words, not {value!r}")
    return value


def _beside(spec: str, path: Path) -> str:
    """A kernel that is named by a file, seen from here instead of from the file's folder."""
    match = re.match(r"^(?P<file>[^:\s]+\.(py|so|dylib)[^:]*)(?P<rest>:.*)?$", spec)
    if match is None or Path(match["file"]).is_absolute():
        return spec
    moved = os.path.relpath(path.parent / match["file"])
    return moved + (match["rest"] or "")
