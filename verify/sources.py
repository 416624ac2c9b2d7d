"""Sources: the files that this judge is made of, and whether they are still what they were.

A kernel runs as the same user, so it can write where we can.  What it does to modules in its own
process reaches nobody, but a file of ours that it changes might be read by the parent later.  So
the files are hashed before a kernel is loaded and after its last call; a difference ends the run.
Compiled caches of Python and numba are not looked at: see the threat model in docs/selftest.md.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import verify
from verify.errors import IntegrityError

PACKAGES = ("references", "verify")
ENDINGS = frozenset((".py", ".json", ".safetensors", ".npz", ".j2", ".css", ".js"))


def fingerprint() -> dict[str, str]:
    """SHA-256 of each file of the two packages, by its path below their folder."""
    root = Path(verify.__file__).resolve().parent.parent
    files = (path for package in PACKAGES for path in (root / package).rglob("*"))
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.suffix in ENDINGS and path.is_file()
    }


class Guard:
    """Remembers the files as they are now."""

    def __init__(self) -> None:
        self._before = fingerprint()

    def require_unchanged(self, kernel: str) -> None:
        """Raises IntegrityError, with the names of the files, where one is changed, new or gone."""
        now = fingerprint()
        names = sorted(self._before.keys() | now.keys())
        changed = [name for name in names if self._before.get(name) != now.get(name)]
        if changed:
            more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
            raise IntegrityError(
                f"files of the judge changed while {kernel} ran ({', '.join(changed[:3])}{more}): "
                "this run proves nothing; restore them, and run again without anything else "
                "that writes there"
            )
