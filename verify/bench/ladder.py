"""Ladder: which shapes are timed when nobody names them."""

from __future__ import annotations

from verify.bench.shape import HELP, Shape
from verify.errors import UsageError
from verify.operation import OperationName

QUICK, FULL = "quick", "full"
_ATTENTION = {
    ("cpu", QUICK): ("prefill:1x4x256x64", "prefill:1x4x1024x64", "decode:4x4x1024x64"),
    ("cpu", FULL): (
        *("prefill:1x4x64x64", "prefill:1x4x256x64", "prefill:1x4x1024x64"),
        *("prefill:1x2x4096x64", "prefill:1x1x8192x64"),
        *("decode:4x4x1024x64", "decode:4x4x8192x64"),
    ),
    ("cuda", QUICK): ("prefill:1x16x1024x64", "prefill:1x16x4096x64", "decode:16x16x4096x64"),
    ("cuda", FULL): (
        *("prefill:4x16x64x64", "prefill:4x16x1024x64", "prefill:2x16x4096x64"),
        *("prefill:1x16x8192x128", "prefill:1x16x16384x128"),
        *("decode:16x16x1024x128", "decode:16x16x8192x128", "decode:16x16x32768x128"),
    ),
}
_ROWS = {
    QUICK: ("rows:256x1024", "rows:16x65536"),
    FULL: (
        *("rows:4096x64", "rows:256x1024", "rows:256x4096"),
        *("rows:16x65536", "rows:4x1000000", "rows:1000000x16"),
    ),
}


def shapes(operation: OperationName, device: str, text: str = FULL) -> list[Shape]:
    """The shapes of a ladder ('quick', 'full') or of a comma-separated list of labels.

    Raises      UsageError for a label of no known form, or where none is of the operation.
    """
    if text in (QUICK, FULL):
        key = ("cpu" if device == "cpu" else "cuda", text)
        labels = _ATTENTION[key] if operation == "attention" else _ROWS[text]
        return [Shape.parse(label) for label in labels]
    wanted = [Shape.parse(label) for label in text.split(",")]
    mine = [s for s in wanted if s.operation_is_attention == (operation == "attention")]
    if not mine:
        raise UsageError(f"--shapes {text!r} has no shape of {operation}; write {HELP}")
    return mine
