"""Two real versions of a kernel, certified and compared from the outside."""

from __future__ import annotations

from pathlib import Path

from verify.certifying import Request, certify_all
from verify.compare.change import Kind
from verify.compare.comparing import compare

ACCURATE = """
def softmax(x):
    return x.float().softmax(-1).to(x.dtype)
"""
COARSE = """
def softmax(x):
    e = (x - x.max(-1, keepdim=True).values).exp()
    return e / e.sum(-1, keepdim=True)
"""


def certified(folder: Path, source: str) -> Path:
    """The folder of the certificate of a version in fp16 on one family."""
    folder.mkdir()
    (folder / "mine.py").write_text(source)
    name = f"{folder / 'mine.py'}:softmax"
    made = {"model": "half"}  # what both versions keep to
    request = Request(
        (name,), "fp16", profile="smoke", only=("standard_normal",), folder=folder, declared=made
    )
    certify_all(request)
    return folder


def test_a_version_that_rounds_every_step_is_found_worse(tmp_path: Path) -> None:
    """Both are within the bound that they declare; the second errs more, and its grade falls."""
    old = certified(tmp_path / "old", ACCURATE)
    new = certified(tmp_path / "new", COARSE)
    outcome = compare(old, new, 1.2)
    assert outcome.exit_status == 1
    assert {c.where for c in outcome.worse} >= {"standard_normal", "grade"}
    assert all(c.kind is Kind.ACCURACY for c in outcome.worse)
    assert compare(new, old, 1.2).worse == []
    assert compare(old, old, 1.0).changes == []
