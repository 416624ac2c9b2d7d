"""The front page says what the summaries say, and the committed one is up to date."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from verify.cli import app
from verify.errors import UsageError
from verify.front_page import BEGIN, END, comparison, lines, page

REPORTS = Path(__file__).parents[2] / "reports"


def entry(kernel: str, fmt: str, **changes: Any) -> dict[str, Any]:
    return {
        "kernel": kernel, "operation": "attention", "format": fmt, "device": "cpu",
        "profile": "standard", "packages": {}, "expected": "pass", "verdict": "PASS", "grade": "B",
        "worst tightness": 0.5, "worst case": f"needle/{fmt}/a", "reason": None,
        "counts": {"PASS": 3}, "command": "", **changes,
    }  # fmt: skip


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """Two reports: one certified, one refuted in fp16, and a finding about the latter."""
    bad = {"counts": {"PASS": 2, "FAIL": 1}, "reason": "loses a key", "expected": "fail"}
    idle: dict[str, Any] = {
        "expected": "unavailable",
        "counts": {},
        "grade": None,
        "worst case": None,
    }
    made = {
        "one-1.0": [entry("one-sdpa", "fp16"), entry("one-sdpa", "fp32", grade="A32")],
        "two-2.0": [entry("two-flash", "fp16", **bad), entry("two-cuda", "fp16", **idle)],
    }
    for name, entries in made.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "summary.json").write_text(json.dumps(entries))
    (tmp_path / "findings").mkdir()
    (tmp_path / "findings" / "two.md").write_text("Kernel `two-flash` loses a key.")
    return tmp_path


def test_every_kernel_has_a_line_with_its_grade_and_refutations_have_their_reason(
    reports: Path,
) -> None:
    """Grade and tightness in the cell; refuted, why and where; what could not run is named."""
    text = comparison(reports)
    assert "| one-sdpa | [one-1.0](one-1.0/report.md) | B 0.5 | — | A32 0.5 |" in text
    assert "| two-flash | [two-2.0](two-2.0/report.md) | **refuted** | — | — |" in text
    assert "- **two-flash fp16**: loses a key (`needle/fp16/a`) [finding](findings/two.md)" in text
    assert "not available where these reports were made: two-cuda." in text
    assert "2 implementations that this project did not write, 2 of them of attention" in text


def test_only_what_lies_between_the_marks_is_made_anew(reports: Path) -> None:
    """Prose around the table stays; making it twice changes nothing."""
    before = f"# Title\n\n{BEGIN}\nstale\n{END}\n\nAfter.\n"
    after = page(before, reports)
    assert after.startswith("# Title\n")
    assert after.endswith("After.\n")
    assert "stale" not in after
    assert page(after, reports) == after


def test_the_command_checks_and_writes(reports: Path) -> None:
    """--check exits 1 until the page is written."""
    run = CliRunner().invoke
    assert run(app, ["front-page", str(reports), "--check"]).exit_code == 1
    assert run(app, ["front-page", str(reports)]).exit_code == 0
    assert run(app, ["front-page", str(reports), "--check"]).exit_code == 0


def test_a_folder_without_reports_is_a_usage_error(tmp_path: Path) -> None:
    """The message says what makes one."""
    with pytest.raises(UsageError, match="attncert publish"):
        lines(tmp_path)


def test_the_committed_front_page_is_what_the_generator_gives() -> None:
    """reports/README.md cannot drift from the reports beside it."""
    text = (REPORTS / "README.md").read_text(encoding="utf-8")
    assert page(text, REPORTS) == text
