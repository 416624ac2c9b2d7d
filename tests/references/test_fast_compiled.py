"""The first use in a new installation: two processes compile, and one alone can."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import references
from references.fast import compiled

COLD = """
import numpy as np
from references import fast
{before}
x = np.ones((1, 1, 8, 4))
assert fast.attention(x, x, x).output.hi.tolist() == x.tolist()
from references.fast import weights
print(*(sum(kernel.stats.cache_hits.values()) for kernel in (weights.gather, weights.maxima)))
"""
ALONE = "import sys; sys.executable = ''"


def cold(tmp_path: Path, before: str) -> tuple[str, str]:
    """What the first call prints in a copy of `references` that nothing is compiled for."""
    source = Path(references.__file__).parent
    shutil.copytree(source, tmp_path / "references", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-c", COLD.format(before=before)],
        cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip(), done.stderr


@pytest.mark.slow
def test_another_process_compiles_half_of_it(tmp_path: Path) -> None:
    """The kernels of `weights` come from the cache, although it was empty; and it says that it
    compiles."""
    printed, logged = cold(tmp_path, "")
    assert printed == "1 1"
    assert "compiles its numerical kernels" in logged


@pytest.mark.slow
def test_one_process_compiles_all_of_it(tmp_path: Path) -> None:
    """Where no other process can be started."""
    assert cold(tmp_path, ALONE)[0] == "0 0"


def test_what_is_compiled_starts_no_process_and_says_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The second use of an installation."""
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: pytest.fail("a process was started"))
    with caplog.at_level(logging.WARNING), compiled.cache(), compiled.beside("weights"):
        pass
    assert not caplog.records


def test_a_process_that_cannot_start_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module is compiled here when it is imported."""

    def refuse(*_arguments: Any, **_options: Any) -> Any:
        raise OSError("no more processes")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with compiled.beside("a module that is not compiled yet"):
        pass
