"""Adversarial families, one file each; the file's name is the family's name.

A new family is a new file here that defines `FAMILY`; nothing else has to be edited.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator
from importlib import resources

from verify.case import Case, Plan
from verify.errors import UsageError
from verify.family import Family


def names() -> list[str]:
    """All families, sorted."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def family(name: str) -> Family:
    """The family of that name. Raises UsageError with the list of names."""
    if name not in names():
        raise UsageError(f"unknown family {name!r}; see `attncert list families`")
    found = importlib.import_module(f"{__name__}.{name}").FAMILY
    if not isinstance(found, Family) or found.name != name:
        raise TypeError(f"verify/families/{name}.py must define FAMILY with name={name!r}")
    return found


def cases(plan: Plan, only: list[str] | None = None) -> Iterator[Case]:
    """The cases of a plan, family by family (all, or `only` those named)."""
    for name in only if only is not None else names():
        yield from family(name).cases(plan)


def manifest() -> dict[str, dict[str, str]]:
    """The committed SHA-256 of each case's inputs (seed 0, standard), by operation and case id.

    `python -m verify.families._manifest` writes it anew.
    """
    text = resources.files(__name__).joinpath("manifest.json").read_text(encoding="utf-8")
    return dict(json.loads(text))
