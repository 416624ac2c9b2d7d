"""The commands of `attncert`, one module each; `attncert NAME` is `verify/commands/NAME.py`.

A new command is a new file with a click command called `command`; nothing else has to be edited.
At its top it imports click and `verify.errors` only, so that `--help` stays fast.
"""

from __future__ import annotations

import importlib
import pkgutil

import click

# The order in which a user meets them; what is not named here follows by name.
_FIRST = (
    "certify",
    "report",
    "publish",
    "selftest",
    "list",
    "reproduce",
    "recheck",
    "export",
    "grade",
)


def names() -> list[str]:
    """Every command, in the order of the help."""
    found = sorted(entry.name.replace("_", "-") for entry in pkgutil.iter_modules(__path__))
    return [n for n in _FIRST if n in found] + [n for n in found if n not in _FIRST]


def load(name: str) -> click.Command | None:
    """The command of that name, or None."""
    if name not in names():
        return None
    found: click.Command = importlib.import_module(f"{__name__}.{name.replace('-', '_')}").command
    return found
