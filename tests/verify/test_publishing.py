"""Publishing: what is timed is what the bench has shapes for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.verify.report.factory import certificate
from verify import publishing
from verify.bench import running
from verify.operation import OPERATIONS, TIMED
from verify.publishing import _requests
from verify.worker import Worker


def test_only_operations_with_shapes_are_timed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A kernel of every operation: packed ones and gradients once ended the run with 70."""
    asked: list[str] = []
    monkeypatch.setattr(running, "bench", lambda ask, file: asked.extend(ask.request.kernels))
    monkeypatch.setattr(publishing, "read_timings", lambda file: [])
    ready: list[dict[str, Any]] = [
        {"name": name, "operation": name, "devices": ["cpu"], "environment": {"cuda": None}}
        for name in OPERATIONS
    ]
    publishing._timings(ready, tmp_path)
    assert asked == list(TIMED)


def test_expected_refutation_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """A reader of the log need not know that the naive kernel is shipped to be refuted."""
    refuted = certificate("textbook-softmax-naive", operation="softmax", naive=True)
    publishing.Announcer().finished(refuted)
    publishing.Announcer().finished(replace(refuted, expected="pass"))
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("; as it must be")
    assert not second.endswith("; as it must be")


def test_gradients_of_torchs_own_kernels_are_published_in_three_formats() -> None:
    """By autograd, as requests of their own: a forward certificate says nothing about them."""
    with Worker() as worker:
        listed = worker.list_kernels()
    ready = [k for k in listed if k["name"] in ("torch-sdpa-math", "torch-sdpa-flash")]
    requests = _requests(ready, Path("out"), "smoke")
    backward = [r for r in requests if r.direction == "backward"]
    names = ("torch-sdpa-flash", "torch-sdpa-math")
    assert [(r.formats, tuple(sorted(r.kernels))) for r in backward if r.device == "cpu"] == [
        (fmt, names) for fmt in ("bf16", "fp16", "fp32")
    ]
    assert len([r for r in requests if r.direction is None]) == len(backward)
