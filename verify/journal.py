"""Journal: what a run has found so far, on disk the moment it exists, so that it can be resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from verify.certificate import Record, plain, write_atomically
from verify.errors import IntegrityError


class Journal:
    """Append-only JSON lines: a head that says what is being run, then what was found.

    A line is the record of a case, or all records of a property, whose calls are one experiment.
    With `resume`, the lines of an earlier run of the same campaign are kept and a last line that
    a crash cut off is dropped; otherwise the journal starts anew.
    """

    def __init__(self, path: Path, identity: str, *, resume: bool = False) -> None:
        self.path = path
        known = list(self._read(identity)) if resume else []
        text = "".join(_line(data) for data in ({"journal": identity}, *known))
        self._cases = [Record.from_json(data) for data in known if "property" not in data]
        self._properties = {
            str(data["property"]): tuple(Record.from_json(r) for r in data["records"])
            for data in known
            if "property" in data
        }
        self._written = hashlib.sha256(text.encode())
        write_atomically(path, text)

    def records(self) -> dict[str, Record]:
        """Records by case id that an earlier, interrupted run left."""
        return {record.case: record for record in self._cases}

    def properties(self) -> dict[str, tuple[Record, ...]]:
        """Records of the properties that an earlier run tried to their end."""
        return dict(self._properties)

    def append(self, record: Record) -> None:
        """A case is done."""
        self._append(plain(asdict(record)))

    def append_property(self, name: str, records: Iterable[Record]) -> None:
        """A property is done."""
        self._append({"property": name, "records": [plain(asdict(r)) for r in records]})

    def _append(self, data: Mapping[str, Any]) -> None:
        line = _line(data)
        self._written.update(line.encode())
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line)

    def require_untouched(self, kernel: str) -> None:
        """Raises IntegrityError where the file does not hold exactly what was written here."""
        found = self.path.read_bytes() if self.path.is_file() else b""
        if hashlib.sha256(found).digest() != self._written.digest():
            raise IntegrityError(
                f"the journal {self.path} was changed while {kernel} ran: this run proves nothing; "
                "give each run an output folder of its own"
            )

    def _read(self, identity: str) -> Iterator[Mapping[str, Any]]:
        """Nothing where there is no journal of this very campaign to continue."""
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
        except OSError:
            return
        parsed = _parsed(lines)
        if next(parsed, {}).get("journal") == identity:
            yield from parsed


def _line(data: Mapping[str, Any]) -> str:
    return json.dumps(data, allow_nan=False) + "\n"


def _parsed(lines: list[str]) -> Iterator[Mapping[str, Any]]:
    """The lines up to the first that was cut off by a crash."""
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            return
