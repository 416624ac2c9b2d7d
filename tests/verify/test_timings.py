"""Timings beside certificates: which belong to which, and what is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.verify.report.factory import certificate
from verify.certificate import certificate_files, write
from verify.errors import CertificateError, UsageError
from verify.report import write_report
from verify.timings import Timed, attached, files, label, read

STATS = {"median": 0.02, "min": 0.01, "iqr": 0.002, "rounds": 7}


def bench_file(path: Path, *extras: dict[str, Any]) -> Path:
    benchmarks = [{"name": f"t{i}", "extra_info": e, "stats": STATS} for i, e in enumerate(extras)]
    path.write_text(json.dumps({"benchmarks": benchmarks}))
    return path


def test_a_users_own_benchmark_names_its_kernel_and_format(tmp_path: Path) -> None:
    """extra_info with kernel and dtype is enough; a benchmark without is of nothing we know."""
    mine = {"kernel": "mine.py:flash", "dtype": "bfloat16"}
    path = bench_file(
        tmp_path / "a.bench.json", mine, {}, {"kernel": "x"}, {"kernel": "x", "dtype": "?"}
    )
    (found,) = read(path)
    assert found.key == ("mine.py:flash", "bf16", "cpu")
    assert found.timing["seconds_median"] == 0.02
    assert found.timing["spread"] == pytest.approx(0.1)
    assert found.timing["verdict"] == "not judged"
    assert label(found.timing) == "t0"


def test_timings_go_to_the_certificate_of_their_kernel_format_and_device() -> None:
    """A newer timing of a shape takes the place of an older; the rest is returned."""
    old = certificate("mine", throughput=({"label": "a", "shape": [1], "seconds_median": 9.0},))
    newer = Timed("mine", "fp16", "cpu", {"label": "a", "seconds_median": 1.0})
    second = Timed("mine", "fp16", "cpu", {"label": "b", "seconds_median": 2.0})
    stranger = Timed("mine", "fp16", "cuda", {"label": "a", "seconds_median": 3.0})
    (found,), homeless = attached([old], [newer, second, stranger])
    assert [t["seconds_median"] for t in found.throughput] == [1.0, 2.0]
    assert homeless == [stranger]


def test_timings_of_a_kernel_with_gradients_are_those_of_its_forward_pass() -> None:
    """A backward kernel that has no forward certificate keeps its own."""
    timing = Timed("mine", "fp16", "cpu", {"label": "a", "seconds_median": 1.0})
    backward = certificate("mine", operation="attention_backward")
    found, _ = attached([backward, certificate("mine")], [timing])
    assert [len(c.throughput) for c in found] == [0, 1]
    found, homeless = attached([backward], [timing])
    assert (len(found[0].throughput), homeless) == (1, [])


def test_a_file_of_timings_is_no_certificate(tmp_path: Path) -> None:
    """A folder holds both; each is found as what it is."""
    bench = bench_file(tmp_path / "throughput.bench.json")
    with pytest.raises(UsageError, match="no certificate"):
        certificate_files((tmp_path,))
    write(certificate(), tmp_path / "one.json")
    write_report([certificate()], tmp_path)  # leaves summary.json
    assert certificate_files((tmp_path,)) == [tmp_path / "one.json"]
    assert files((tmp_path,)) == [bench]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"benchmarks": [1]}', '{"benchmarks": [{}]}'])
def test_a_file_that_is_none_of_pytest_benchmarks_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.bench.json"
    path.write_text(text)
    with pytest.raises(CertificateError, match=r"x\.bench\.json"):
        read(path)
