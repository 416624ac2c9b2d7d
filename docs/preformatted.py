"""Shows docstrings on the site as they stand: their columns are aligned with spaces."""

from __future__ import annotations

from typing import Any

from griffe import Extension, Object


class Preformatted(Extension):
    """Wraps every docstring in a block of plain text."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None and not obj.docstring.value.startswith("```"):
            obj.docstring.value = f"```text\n{obj.docstring.value}\n```"
