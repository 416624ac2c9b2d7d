"""The published tables about the judge itself, as packed by `verify.selftest.published`."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any


@cache
def tables() -> dict[str, Any]:
    """Gates of others (what each control and right kernel got from them) and power."""
    text = resources.files("verify.controls").joinpath("published.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def origin() -> str:
    """Which version made the tables, and when."""
    return f"attncert {tables()['version']}, {tables()['created']}"
