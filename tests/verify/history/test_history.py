"""History: trends over versions, what is missing in one, and the page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.verify.report.factory import certificate, record
from verify.certificate import Grade, write
from verify.cli import main
from verify.errors import UsageError
from verify.history.trend import trends, versions
from verify.history.writing import write_history

SHAPE = "prefill:1x4x256x64"


def version(
    folder: Path, tightness: float, rate: float, grade: str = "B", name: str = "mine.py:flash"
) -> Path:
    folder.mkdir()
    timing: dict[str, Any] = {"label": SHAPE, "shape": [1], "rounds": 5, "flops": 1.0, "bytes": 1.0}
    timing |= {"seconds_median": 1 / rate, "tokens_per_second": rate, "ratio": rate / 100}
    made = record(tightness=tightness)
    one = certificate(name, records=(made,), grade=Grade(grade, "meaning", None))
    write(replace(one, throughput=(timing,)), folder / "a.json")
    return folder


def test_each_version_has_its_tightness_grade_and_throughput(tmp_path: Path) -> None:
    """Also where the kernel's file lies in another checkout."""
    old = version(tmp_path / "v1", 0.2, 50.0, name="/v1/mine.py:flash")
    new = version(tmp_path / "v2", 0.6, 80.0, "C", name="/v2/mine.py:flash")
    (trend,) = trends(versions([old, new]))
    assert trend.title == "mine.py:flash fp16"
    assert trend.shape == SHAPE
    first, second = trend.states
    assert first is not None
    assert second is not None
    assert (first.largest, second.largest) == (0.2, 0.6)
    assert (first.rate, second.rate) == (50.0, 80.0)
    assert (first.grade, second.grade) == ("B", "C")


def test_a_version_without_the_kernel_says_so(tmp_path: Path) -> None:
    old, new = version(tmp_path / "v1", 0.2, 50.0), version(tmp_path / "v2", 0.3, 60.0)
    write(certificate("second"), new / "b.json")
    found = {t.title: t for t in trends(versions([old, new]))}
    assert found["second fp16"].states[0] is None
    paths = write_history(versions([old, new]), list(found.values()), tmp_path)
    assert "not certified here" in paths[0].read_text()
    assert "not certified here" in paths[1].read_text()


def test_the_page_shows_every_version_and_two_lines_differ_as_their_data(tmp_path: Path) -> None:
    folders = [version(tmp_path / f"v{i}", 0.1 * i, 10.0**i) for i in (1, 2, 3)]
    found = versions(folders, ["1.0", "1.1", "2.0"])
    html, summary = write_history(found, trends(found), tmp_path)
    page = html.read_text()
    for text in ("1.0", "1.1", "2.0", "<svg", "Tightness", "Tokens per second", SHAPE):
        assert text in page
    assert summary.read_text().count("mine.py:flash") == 3
    assert "mathdefault" not in page
    turned = versions(folders[::-1], ["1.0", "1.1", "2.0"])
    other, _ = write_history(turned, trends(turned), tmp_path)
    assert other.read_text() != page


def test_profiles_that_differ_are_told(tmp_path: Path) -> None:
    old, new = version(tmp_path / "v1", 0.2, 50.0), tmp_path / "v2"
    new.mkdir()
    write(certificate("mine.py:flash", records=(record(),), profile="smoke"), new / "a.json")
    found = versions([old, new])
    html, _ = write_history(found, trends(found), tmp_path)
    assert "were not certified alike" in html.read_text()


def test_what_is_no_history_is_a_usage_error(tmp_path: Path) -> None:
    one = version(tmp_path / "v1", 0.2, 50.0)
    with pytest.raises(UsageError, match="two folders"):
        versions([one])
    with pytest.raises(UsageError, match="give each a --label"):
        versions([one, one])
    with pytest.raises(UsageError, match="2 folders have 1"):
        versions([one, one], ["a"])
    empty = tmp_path / "v2"
    empty.mkdir()
    (empty / "x.bench.json").write_text(json.dumps({"benchmarks": []}))
    with pytest.raises(UsageError, match="no certificate"):
        versions([one, empty])


def test_the_command_prints_a_line_for_each_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [version(tmp_path / f"v{i}", 0.1 * i, 10.0 * i) for i in (1, 2)]
    main(["history", *map(str, folders), "--output", str(tmp_path / "out")])
    shown = capsys.readouterr().out
    assert "v1" in shown
    assert "tokens/s 20" in shown
    assert (tmp_path / "out" / "history.html").is_file()
