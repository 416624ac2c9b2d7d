"""Two versions of a kernel: what became worse is found, and each gate is seen to fail."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.verify.report.factory import certificate, record
from verify.certificate import Certificate, Grade, Record, Skipped, write
from verify.cli import main
from verify.compare.comparing import compare
from verify.compare.speed import Limit
from verify.errors import CertificateError, UsageError
from verify.judge import Verdict

TIMING = {
    "label": "prefill:1x4x256x64",
    "shape": [1, 4, 256, 256, 64],
    "rounds": 9,
    "seconds_median": 0.010,
    "seconds_least": 0.009,
    "against": "torch-sdpa",
    "ratio": 0.5,
    "trust": "good",
    "machine": {"threads": 2, "cpu": "AVX512", "gpu": None},
}


def scaled(made: Record, size: float) -> Record:
    """The record with another largest error, in units of u Σ P|v|."""
    return replace(made, metrics={**made.metrics, "max_scaled": size})


def version(
    folder: Path,
    *,
    sizes: tuple[float, float] = (2.0, 3.0),
    name: str = "mine.py:flash",
    **changes: Any,
) -> Path:
    """A folder with one certificate of two families, whose largest errors are given."""
    folder.mkdir(exist_ok=True)
    records = (scaled(record("late_jump"), sizes[0]), scaled(record("needle"), sizes[1]))
    made = certificate(name, records=records, skipped=())
    write(replace(made, **changes), folder / "mine.json")
    return folder


def timed(folder: Path, name: str = "mine.py:flash", **changes: Any) -> Path:
    """The same folder with a timing beside the certificate."""
    facts = {"kernel": name, "format": "fp16", "device": "cpu", "timing": {**TIMING, **changes}}
    bench: Mapping[str, Any] = {
        "benchmarks": [{"name": "t", "extra_info": {"attncert": facts}, "stats": {}}]
    }
    (folder / "throughput.bench.json").write_text(json.dumps(bench))
    return folder


def status(*arguments: object) -> int:
    """What `attncert compare` exits with."""
    with pytest.raises(SystemExit) as end:
        main(["compare", *map(str, arguments)])
    return int(end.value.code or 0)


def test_equal_versions_are_not_worse(tmp_path: Path) -> None:
    old, new = version(tmp_path / "a"), version(tmp_path / "b")
    outcome = compare(old, new, 1.0)
    assert outcome.worse == []
    assert (outcome.pairs, outcome.cases, outcome.exit_status) == (1, 2, 0)
    assert status(old, new) == 0


def test_a_less_accurate_kernel_ends_with_1_and_names_family_and_factor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error of 2 that becomes 5 is 2.5 times as large; past 1.5, within 3."""
    old, new = version(tmp_path / "a"), version(tmp_path / "b", sizes=(5.0, 3.0))
    assert status(old, new) == 1
    shown = capsys.readouterr().out
    assert "late_jump: largest error 2 -> 5 u Σ P|v|, 2.5 times" in shown
    assert "needle" not in shown
    assert status(old, new, "--max-growth", "3") == 0
    assert status(new, old) == 0


def test_growth_below_correct_rounding_is_no_growth(tmp_path: Path) -> None:
    """From 0.01 to 0.9 of one rounding of the result: every format's best is 1."""
    old, new = version(tmp_path / "a", sizes=(0.01, 0)), version(tmp_path / "b", sizes=(0.9, 0))
    assert compare(old, new, 1.0).worse == []


def test_a_value_that_is_lost_is_infinite_growth(tmp_path: Path) -> None:
    old, new = version(tmp_path / "a"), tmp_path / "b"
    new.mkdir()
    lost = record("late_jump", verdict=Verdict.FAIL, value=math.nan)
    records = (lost, scaled(record("needle"), 3.0))
    write(certificate("mine.py:flash", records=records, skipped=()), new / "mine.json")
    texts = [c.text for c in compare(old, new, 1e9).worse]
    assert any("PASS -> FAIL" in text for text in texts)
    assert any("inf times" in text for text in texts)


def test_a_worse_grade_ends_with_1_and_a_better_one_does_not(tmp_path: Path) -> None:
    good = version(tmp_path / "a", grade=Grade("A", "binary32", None))
    bad = version(tmp_path / "b", grade=Grade("C", "eager", "late_jump/fp16/64x64-d64"))
    (change,) = compare(good, bad, 2.0).worse
    assert change.text == "A -> C, limited by late_jump/fp16/64x64-d64"
    assert compare(bad, good, 2.0).worse == []


def test_cases_that_are_judged_no_more_end_with_1_and_say_why(tmp_path: Path) -> None:
    old, new = version(tmp_path / "a"), tmp_path / "b"
    new.mkdir()
    kept = (scaled(record("needle"), 3.0),)
    skipped = (Skipped("late_jump/fp16/64x64-d64", "late_jump", "does not claim causal"),)
    write(certificate("mine.py:flash", records=kept, skipped=skipped), new / "mine.json")
    (change,) = compare(old, new, 2.0).worse
    assert "1 cases are judged no more" in change.text
    assert "does not claim causal" in change.text


def test_a_kernel_that_is_missing_is_worse_and_a_new_one_is_not(tmp_path: Path) -> None:
    old, new = version(tmp_path / "a"), version(tmp_path / "b")
    write(certificate("second"), old / "second.json")
    write(certificate("third"), new / "third.json")
    outcome = compare(old, new, 2.0)
    assert [c.subject for c in outcome.worse] == ["second fp16 cpu"]
    assert [c.subject for c in outcome.notes] == ["third fp16 cpu"]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"profile": "smoke"}, "profile standard"),
        ({"seed": 5}, "seed 0"),
        ({"format": "bf16"}, "format fp16"),
        ({"device": "cuda"}, "device cpu"),
    ],
)
def test_what_does_not_match_is_named_with_the_remedy(
    tmp_path: Path, changes: dict[str, Any], word: str
) -> None:
    old, new = version(tmp_path / "a"), version(tmp_path / "b", **changes)
    with pytest.raises(UsageError, match=word):
        compare(old, new, 2.0)
    assert status(old, new) == 2


def test_a_file_in_another_folder_is_the_same_kernel(tmp_path: Path) -> None:
    """Two checkouts: /old/mine.py and /new/mine.py, with a second kernel beside it."""
    old = version(tmp_path / "a", name="/old/mine.py:flash")
    new = version(tmp_path / "b", name="/new/mine.py:flash", sizes=(9.0, 3.0))
    for folder in (old, new):
        write(certificate("other"), folder / "other.json")
    assert len(compare(old, new, 2.0).worse) == 1


def test_a_slower_kernel_ends_with_6(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """12 ms instead of 10: past 10 %, within 30 %, and in seconds past 1 ms."""
    old = timed(version(tmp_path / "a"))
    new = timed(version(tmp_path / "b"), seconds_median=0.012)
    assert status(old, new, "--fail-speed", "median:10%") == 6
    assert "median 10 ms -> 12 ms: past median:10%" in capsys.readouterr().out
    assert status(old, new, "--fail-speed", "median:30%") == 0
    assert status(old, new, "--fail-speed", "median:0.001") == 6
    assert status(old, new, "--fail-speed", "min:1%") == 0
    assert status(old, new) == 0


def test_a_ratio_that_falls_is_slower_and_accuracy_goes_before_speed(tmp_path: Path) -> None:
    old = timed(version(tmp_path / "a"))
    new = timed(version(tmp_path / "b"), ratio=0.4)
    assert status(old, new, "--fail-speed", "ratio:20%") == 6
    assert status(old, new, "--fail-speed", "ratio:30%") == 0
    worse = timed(version(tmp_path / "c", sizes=(50.0, 3.0)), ratio=0.4)
    assert status(old, worse, "--fail-speed", "ratio:20%") == 1


def test_a_time_that_cannot_be_true_ends_with_3(tmp_path: Path) -> None:
    old = timed(version(tmp_path / "a"))
    new = timed(version(tmp_path / "b", sizes=(50.0, 3.0)), problems=["below the physical floor"])
    assert status(old, new) == 3


def test_seconds_of_two_machines_do_not_compare_but_their_ratios_do(tmp_path: Path) -> None:
    old = timed(version(tmp_path / "a"))
    other = {"threads": 64, "cpu": "AVX512", "gpu": None}
    new = timed(version(tmp_path / "b"), machine=other)
    with pytest.raises(UsageError, match="threads 2 and with threads 64"):
        compare(old, new, 2.0, [Limit.parse("median:5%")])
    assert compare(old, new, 2.0, [Limit.parse("ratio:5%")]).exit_status == 0


def test_a_limit_that_nothing_is_held_against_is_an_error(tmp_path: Path) -> None:
    """A gate that cannot fail would be none."""
    old, new = version(tmp_path / "a"), timed(version(tmp_path / "b"))
    with pytest.raises(UsageError, match="no timing in common"):
        compare(old, new, 2.0, [Limit.parse("median:5%")])


@pytest.mark.parametrize("text", ["median", "median:10", "speed:5%", "ratio:0.1", "min:-1%", ""])
def test_a_limit_is_written_like_pytest_benchmarks(text: str) -> None:
    if text == "median:10":
        assert not Limit.parse(text).relative
        return
    with pytest.raises(UsageError, match="median:10%"):
        Limit.parse(text)


def test_timings_compare_without_certificates(tmp_path: Path) -> None:
    """Two files that pytest-benchmark wrote."""
    for name, seconds in (("a", 0.010), ("b", 0.020)):
        (tmp_path / name).mkdir()
        timed(tmp_path / name, seconds_median=seconds)
    files = [tmp_path / name / "throughput.bench.json" for name in "ab"]
    assert status(*files, "--fail-speed", "median:50%") == 6
    assert status(*files) == 0


def test_nothing_in_common_ends_with_4(tmp_path: Path) -> None:
    for name, kernel in (("a", "one"), ("b", "two")):
        (tmp_path / name).mkdir()
        timed(tmp_path / name, name=kernel)
    assert status(tmp_path / "a", tmp_path / "b") == 4


def test_unreadable_and_missing_files_are_named(tmp_path: Path) -> None:
    old = version(tmp_path / "a")
    (tmp_path / "bad.bench.json").write_text("{}")
    with pytest.raises(CertificateError, match=r"bad\.bench\.json"):
        compare(old, tmp_path / "bad.bench.json", 2.0)
    with pytest.raises(UsageError, match="does not exist"):
        compare(old, tmp_path / "nowhere", 2.0)


def test_the_comment_names_what_is_worse_and_no_name_becomes_markup(tmp_path: Path) -> None:
    old = version(tmp_path / "a", name="<b>|mine")
    new = version(tmp_path / "b", name="<b>|mine", sizes=(5.0, 3.0))
    comment = tmp_path / "comment.md"
    assert status(old, new, "--markdown", comment) == 1
    text = comment.read_text()
    assert text.startswith("### ❌ attncert compare: 1 changes for the worse")
    assert "late\\_jump" in text
    assert "<b>" not in text
    assert status(old, old, "--markdown", comment) == 0
    assert comment.read_text().startswith("### ✅")


def test_other_declarations_are_told(tmp_path: Path) -> None:
    old = version(tmp_path / "a")
    model: dict[str, Any] = {"name": "half", "meaning": "", "variants": [{}]}
    new = version(tmp_path / "b", model=model)
    outcome = compare(old, new, 2.0)
    assert outcome.worse == []
    assert any("model flash -> half" in c.text for c in outcome.notes)


def test_cases_on_other_bits_are_not_compared(tmp_path: Path) -> None:
    old, new = version(tmp_path / "a"), tmp_path / "b"
    new.mkdir()
    records = (
        replace(scaled(record("late_jump"), 99.0), digest="0" * 64),
        scaled(record("needle"), 3.0),
    )
    made: Certificate = certificate("mine.py:flash", records=records, skipped=())
    write(made, new / "mine.json")
    outcome = compare(old, new, 2.0)
    assert outcome.worse == []
    assert outcome.cases == 1
    assert any("other inputs" in c.text for c in outcome.notes)
