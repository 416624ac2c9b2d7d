"""The command: exit status and message for what users do, right or wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples"
MISBEHAVING = Path(__file__).with_name("misbehaving.py")


def attncert(*arguments: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder of its own, as a user would."""
    return subprocess.run(
        [sys.executable, "-m", "verify", *map(str, arguments)],
        cwd=folder or ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture(scope="module")
def refuted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, int]:
    """The naive softmax in binary16, certified once: folder, output, exit status."""
    folder = tmp_path_factory.mktemp("naive")
    kernel = f"{EXAMPLES / 'softmax_naive.py'}:softmax"
    done = attncert("certify", kernel, "--dtype", "fp16", "--profile", "smoke", "--output", folder)
    return folder, done.stdout + done.stderr, done.returncode


def test_naive_softmax_is_refuted_with_everything_needed_to_believe_it(
    refuted: tuple[Path, str, int],
) -> None:
    """Exit 1; family, value, truth and error in decimal and hex, and the command to reproduce."""
    _, output, status = refuted
    assert status == 1, output
    for text in ("REFUTED", "family ", "value  ", "bits 0x", "truth  ", "error  ", "0x1."):
        assert text in output
    assert "attncert reproduce" in output


def test_reproduce_prints_the_same_bits_again(refuted: tuple[Path, str, int]) -> None:
    """The command that the refutation names works, and finds the verdict unchanged."""
    folder, _, _ = refuted
    certificate = next(folder.glob("*.json"))
    done = attncert("reproduce", f"{certificate}#worst")
    assert done.returncode == 0, done.stderr
    assert "as certified, bit for bit" in done.stdout
    assert "bits 0x" in done.stdout


def test_reproduce_of_an_unknown_case_is_a_certificate_error(
    refuted: tuple[Path, str, int],
) -> None:
    """Exit 7 and the name of the case."""
    certificate = next(refuted[0].glob("*.json"))
    done = attncert("reproduce", f"{certificate}#no/such/case")
    assert done.returncode == 7
    assert "has no case 'no/such/case'" in done.stderr


def test_recheck_accepts_a_certificate_and_refuses_a_forged_one(
    refuted: tuple[Path, str, int], tmp_path: Path
) -> None:
    """A verdict that its records do not support is found out."""
    certificate = next(refuted[0].glob("*.json"))
    assert attncert("recheck", certificate).returncode == 0
    data = json.loads(certificate.read_text())
    data["verdict"], data["exit_status"] = "PASS", 0
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps(data))
    done = attncert("recheck", forged)
    assert done.returncode == 7
    assert "the verdict is PASS, its records say FAIL" in done.stderr


def test_stable_softmax_is_certified_with_grade_and_tightness(tmp_path: Path) -> None:
    """Exit 0 in all three formats; the summary line and the JSON say how well."""
    kernel = f"{EXAMPLES / 'softmax_stable.py'}:softmax"
    done = attncert("certify", kernel, "--profile", "smoke", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(done.stdout)
    assert [row["format"] for row in rows] == ["fp16", "bf16", "fp32"]
    assert all(row["verdict"] == "PASS" and row["grade"] for row in rows)
    assert all(Path(tmp_path / row["certificate"]).is_file() for row in rows)


def test_report_is_written_from_certificates(refuted: tuple[Path, str, int]) -> None:
    """HTML and Markdown appear, and name the refuted kernel."""
    folder, _, _ = refuted
    done = attncert("report", folder)
    assert done.returncode == 0, done.stderr
    assert "softmax_naive.py" in (folder / "report.md").read_text()
    page = (folder / "report.html").read_text()
    assert "softmax_naive.py" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["certify", "nowhere.py:softmax"], 2, "no such file: nowhere.py"),
        (["certify", f"{MISBEHAVING}:softmin"], 2, "has no 'softmin'"),
        (["certify", f"{MISBEHAVING}:stable", "--dtype", "fp17"], 2, "unknown format 'fp17'"),
        (["certify", f"{MISBEHAVING}:stable", "--family", "no"], 2, "unknown family 'no'"),
        (["certify", f"{MISBEHAVING}:stable", "--model", "no"], 2, "unknown arithmetic model 'no'"),
        (["certify", f"{MISBEHAVING}:stable", "--declare", "no=1"], 2, "cannot declare 'no'"),
        (["certify", f"{MISBEHAVING}:stable", "--device", "tpu"], 2, "does not claim device 'tpu'"),
        (["certify", f"{MISBEHAVING}:stable", "--output", "/proc/nowhere"], 2, "cannot write to"),
        (["certify"], 2, "no KERNEL is given, and . has neither attncert.toml nor"),
        (["report", "nowhere"], 7, "cannot read nowhere"),
        (["recheck", str(ROOT / "pyproject.toml")], 7, "is not JSON"),
    ],
)
def test_wrong_use_gets_one_line_and_its_exit_status(
    arguments: list[str], status: int, message: str, tmp_path: Path
) -> None:
    """No traceback for a user's mistake."""
    done = attncert(*arguments, folder=tmp_path)
    assert done.returncode == status, done.stdout + done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_missing_cuda_device_is_said_plainly(tmp_path: Path) -> None:
    """Exit 5 where torch sees no CUDA device."""
    import torch

    if torch.cuda.is_available():
        pytest.skip("a CUDA device is here")
    done = attncert("certify", f"{MISBEHAVING}:stable", "--device", "cuda", folder=tmp_path)
    assert done.returncode == 5
    assert "no CUDA device" in done.stderr


@pytest.mark.parametrize(
    ("name", "status", "message"),
    [
        ("raises", 5, "ValueError: no such luck"),
        ("wrong_shape", 5, "returned shape"),
        ("wrong_type", 5, "returned list instead of a plain tensor"),
        ("wrong_format", 5, "returned fp64 instead of fp16"),
        ("changes_input", 3, "changed its inputs"),
    ],
)
def test_kernel_that_breaks_its_contract_ends_with_its_status(
    name: str, status: int, message: str, tmp_path: Path
) -> None:
    """Every case failed in the same way: 5 for an unusable kernel, 3 for one that tampers."""
    command = ["certify", f"{MISBEHAVING}:{name}", "--dtype", "fp16", "--family", "seed_case"]
    done = attncert(*command, folder=tmp_path)
    assert done.returncode == status, done.stdout + done.stderr
    assert message in done.stdout
    assert "Traceback" not in done.stderr


def test_lists_name_what_there_is() -> None:
    """Families and models with what they are for."""
    assert "seed_case" in attncert("list", "families").stdout
    assert "flash" in attncert("list", "models").stdout
    assert "2^-11" in attncert("list", "formats").stdout


def test_help_starts_in_half_a_second() -> None:
    """The better of three runs, so that a busy machine does not fail it."""
    import time

    times = []
    for _ in range(3):
        started = time.perf_counter()
        assert attncert("--help").returncode == 0
        times.append(time.perf_counter() - started)
    assert min(times) < 0.5
