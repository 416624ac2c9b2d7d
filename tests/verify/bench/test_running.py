"""`attncert bench` from the outside: JSON, table and exit statuses; each gate seen to fail."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from verify.bench import require_pytest_benchmark
from verify.errors import UsageError

ROOT = Path(__file__).resolve().parent.parent.parent.parent
KERNELS = Path(__file__).parent / "kernels.py"
FAST = ("--shapes", "rows:256x1024", "--dtype", "fp16", "--rounds", "3", "--wait", "0")


def attncert(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "verify", "bench", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def timings(folder: Path) -> dict[str, Any]:
    """What the JSON tells of each kernel, by the name of its function."""
    data = json.loads((folder / "out/attncert/throughput.bench.json").read_text())
    facts = [b["extra_info"]["attncert"] | {"stats": b["stats"]} for b in data["benchmarks"]]
    return {f["kernel"].rpartition(":")[2]: f for f in facts}


def test_a_wrong_output_ends_with_1_and_a_right_one_is_timed(tmp_path: Path) -> None:
    """pytest-benchmark's seconds are those of the call; ratio, roofline and trust beside it."""
    done = attncert(f"{KERNELS}:softmax", f"{KERNELS}:wrong", *FAST, folder=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "elements beyond the bound" in done.stdout
    found = timings(tmp_path)
    timing = found["softmax"]["timing"]
    assert timing["verdict"] == "PASS"
    assert found["wrong"]["timing"]["verdict"] == "FAIL"
    assert found["softmax"]["stats"]["median"] == pytest.approx(timing["seconds_median"])
    assert timing["against"] == "torch-softmax"
    assert timing["ratio"] > 0
    # no upper end: what disturbs the roofline while it is measured makes the share large
    assert timing["roofline_share"] > 0
    assert timing["overhead"] > 0
    assert timing["trust"] in ("good", "fair", "poor")
    assert len(timing["checked"]) == 2
    assert "reference  torch-softmax" in done.stdout


@pytest.mark.slow
def test_a_clock_that_lies_ends_with_3(tmp_path: Path) -> None:
    """A kernel that tells of a nanosecond; the honest one after it, in a fresh process, does not
    suffer from the clock that was broken."""
    done = attncert(f"{KERNELS}:lying", f"{KERNELS}:softmax", *FAST, folder=tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "below the physical floor" in done.stdout or "the worker tells of" in done.stdout
    assert timings(tmp_path)["softmax"]["timing"]["problems"] == []
    assert timings(tmp_path)["lying"]["timing"]["problems"]


@pytest.mark.slow
def test_a_kernel_that_remembers_its_inputs_ends_with_3(tmp_path: Path) -> None:
    """Its outputs are right; the honest one beside it is not accused."""
    done = attncert(f"{KERNELS}:remembering", f"{KERNELS}:softmax", *FAST, folder=tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "the kernel remembers answers" in done.stdout
    found = timings(tmp_path)
    assert found["remembering"]["timing"]["verdict"] == "PASS"
    assert found["softmax"]["timing"]["problems"] == []


@pytest.mark.slow
def test_a_slower_kernel_ends_with_6_by_pytest_benchmarks_own_options(tmp_path: Path) -> None:
    """The same name, 20 ms slower than the run that was saved."""
    mine = tmp_path / "mine.py"
    shutil.copy(KERNELS, mine)
    saved = attncert(f"{mine}:softmax", *FAST, "--", "--benchmark-save=base", folder=tmp_path)
    assert saved.returncode == 0, saved.stdout + saved.stderr
    slower = KERNELS.read_text().replace("def softmax", "def fast")
    mine.write_text(slower.replace("def slow", "def softmax"))
    gate = ("--", "--benchmark-compare", "--benchmark-compare-fail=median:50%")
    done = attncert(f"{mine}:softmax", *FAST, *gate, folder=tmp_path)
    assert done.returncode == 6, done.stdout + done.stderr
    assert "Performance has regressed" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("torch-softmax", "--shapes", "prefill:1x1x4x4"), "no shape of softmax"),
        (("torch-softmax", "--shapes", "nothing"), "prefill:BATCHxHEADSxNxD"),
        (("--", "--benchmark-autosave"), "no kernel before"),
    ],
)
def test_what_cannot_be_timed_ends_with_2_and_a_line(
    tmp_path: Path, arguments: tuple[str, ...], word: str
) -> None:
    done = attncert(*arguments, folder=tmp_path)
    assert done.returncode == 2
    assert word in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_published_report_has_throughput_and_accuracy_against_speed(tmp_path: Path) -> None:
    """What `tox run -e report` runs, on two kernels and one family."""
    arguments = ["--kernel", "torch-softmax", "--kernel", "textbook-softmax-online"]
    arguments += ["--family", "seed_case", "--profile", "smoke", "--throughput", "--output", "out"]
    command = [sys.executable, "-m", "verify", "publish", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    page = (tmp_path / "out" / "report.html").read_text()
    assert 'id="throughput"' in page, done.stdout + done.stderr
    assert 'id="accuracy_speed"' in page
    assert done.returncode == 0


def test_timing_without_pytest_benchmark_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the extra is not installed."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install attncert\[pytest\]"):
        require_pytest_benchmark()
