"""Whether an optional library is installed, found out without importing it."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec


def needs(*packages: str, extra: str) -> Callable[[], str | None]:
    """For `unavailable`: the reason and the remedy where a package is missing, else None.

    packages    names as they are imported, top level.
    extra       the optional extra of this project that installs them.
    """

    def missing() -> str | None:
        absent = [name for name in packages if find_spec(name) is None]
        if not absent:
            return None
        return f"{' and '.join(absent)} not installed (pip install 'attncert[{extra}]')"

    return missing
