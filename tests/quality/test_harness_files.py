"""A kernel that writes where we do: files of the judge, the journal, the working folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
KERNEL = '''
import os
import pathlib
import torch

def honest(x):
    return torch.softmax(x, dim=-1)

def rewrites_the_judge(x):
    """Adds a line to the module that decides."""
    with open(pathlib.Path(os.environ["SITE"]) / "verify" / "judge.py", "a") as file:
        file.write("# was here\\n")
    return torch.softmax(x, dim=-1)

def adds_a_module(x):
    """Plants a family."""
    (pathlib.Path(os.environ["SITE"]) / "verify" / "families" / "planted.py").write_text("")
    return torch.softmax(x, dim=-1)

def rewrites_the_journal(x):
    """Turns every refutation of the journal into agreement."""
    for path in pathlib.Path("out").glob("*.jsonl"):
        path.write_text(path.read_text().replace("FAIL", "PASS"))
    return x / 0 * 0

def leaves_a_library(x):
    """Leaves modules behind that take the place of those that the parent imports late."""
    for name in ("jinja2", "numpy", "json"):
        pathlib.Path(name + ".py").write_text("raise SystemExit(0)")
    return torch.softmax(x, dim=-1)
'''


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of `verify`, for a kernel to write into (a copy of `references` would be compiled)."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "verify", folder / "verify")
    return folder


def certify(
    function: str, site: Path, folder: Path, *more: str
) -> subprocess.CompletedProcess[str]:
    """`python -m verify certify` with the copy, in a folder of its own."""
    (folder / "mine.py").write_text(KERNEL)
    command = ["certify", f"mine.py:{function}", "--dtype", "fp32", "--family", "seed_case"]
    return subprocess.run(
        [sys.executable, "-m", "verify", *command, "--output", "out", *more],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}", "SITE": str(site)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_kernel_that_rewrites_the_judge_certifies_nothing(site: Path, tmp_path: Path) -> None:
    """Exit 3, the name of the file, no certificate; and an honest kernel is certified after it."""
    done = certify("rewrites_the_judge", site, tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "files of the judge changed" in done.stderr
    assert str(Path("verify", "judge.py")) in done.stderr
    assert not list((tmp_path / "out").glob("*.json"))
    assert certify("honest", site, tmp_path).returncode == 0


@pytest.mark.slow
def test_planted_module_is_found(site: Path, tmp_path: Path) -> None:
    """A new file counts as a change."""
    done = certify("adds_a_module", site, tmp_path)
    (site / "verify" / "families" / "planted.py").unlink()
    assert done.returncode == 3, done.stdout + done.stderr
    assert "planted.py" in done.stderr


@pytest.mark.slow
def test_rewritten_journal_is_found(site: Path, tmp_path: Path) -> None:
    """The records of this run are in memory; a journal that says otherwise ends it."""
    done = certify("rewrites_the_journal", site, tmp_path, "--family", "sharp_scores")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "journal" in done.stderr


@pytest.mark.slow
def test_library_in_the_working_folder_is_not_what_we_import(site: Path, tmp_path: Path) -> None:
    """The first run leaves them behind, the second reports in the same folder."""
    assert certify("leaves_a_library", site, tmp_path).returncode == 0
    assert (tmp_path / "jinja2.py").is_file()
    done = certify("honest", site, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    report = subprocess.run(
        [sys.executable, "-m", "verify", "report", "out"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert report.returncode == 0, report.stderr
