"""Markdown, CSV and JUnit XML: well-formed, complete, and red only where a CI job should be."""

from __future__ import annotations

import csv
import io
import math
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from pathlib import Path

from tests.verify.report.factory import certificate, record, several
from tests.verify.report.test_report import HOSTILE, hostile
from verify.judge import Verdict
from verify.report import facts
from verify.report.junit import junit
from verify.report.results_csv import COLUMNS, csv_text


def suites(text: str) -> list[ET.Element]:
    return list(ET.fromstring(text.encode()))


def test_junit_holds_one_test_case_per_record_skipped_case_and_verdict() -> None:
    made = several()
    found = suites(junit(facts.arranged(made)))
    assert len(found) == len(made)
    wanted = sum(len(c.records) + len(c.skipped) + 1 for c in made)
    assert sum(len(s.findall("testcase")) for s in found) == wanted
    assert sum(int(s.get("tests", "")) for s in found) == wanted


def test_junit_is_green_where_a_naive_kernel_is_refuted_as_it_must_be() -> None:
    (suite,) = suites(junit([certificate("naive", naive=True)]))
    assert suite.get("failures") == suite.get("errors") == "0"
    told = [e.get("message", "") for e in suite.iter("skipped")]
    assert any(m.startswith("FAIL as expected: output is NaN") for m in told)


def test_junit_is_red_where_a_kernel_shipped_to_be_refuted_is_not() -> None:
    (suite,) = suites(junit([replace(certificate(), expected="fail")]))
    assert suite.get("failures") == "1"


def test_junit_tells_errors_from_failures_and_from_what_is_out_of_scope() -> None:
    records = tuple(record(v.value.lower(), verdict=v, tightness=2.0) for v in Verdict)
    (suite,) = suites(junit([certificate(records=records)]))
    counts = Counter(child.tag for case in suite for child in case)
    # One failure more for the verdict as a whole; one skipped case is planned by the factory.
    assert counts == {"failure": 3, "error": 2, "skipped": 2}
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "attncert reproduce" in (failure.text or "")


def test_junit_counts_incomplete_certificates_as_failures() -> None:
    (suite,) = suites(junit([certificate(missing=1)]))
    assert suite.get("failures") == "1"


def test_files_stay_well_formed_with_hostile_texts() -> None:
    made = hostile()
    assert suites(junit(made))
    rows = list(csv.DictReader(io.StringIO(csv_text(made))))
    assert rows[0]["kernel"] == HOSTILE
    assert len(rows) == 4


def test_csv_holds_every_record_and_every_skipped_case() -> None:
    made = several()
    rows = list(csv.DictReader(io.StringIO(csv_text(made))))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == sum(len(c.records) + len(c.skipped) for c in made)
    assert sum(r["verdict"] == "SKIPPED" for r in rows) == sum(len(c.skipped) for c in made)


def test_csv_holds_numbers_in_full() -> None:
    exact = record(tightness=1 / 3)
    (row, _) = csv.DictReader(io.StringIO(csv_text([certificate(records=(exact,))])))
    assert float(row["tightness"]) == 1 / 3
    assert row["index"] == "0 0"
    assert row["value_bits"] == "0x33d5"
    lost = record(verdict=Verdict.FAIL, value=math.nan)
    (row, _) = csv.DictReader(io.StringIO(csv_text([certificate(records=(lost,))])))
    assert row["value"] == "nan"
    assert row["error"] == ""


def test_markdown_has_a_banner_a_table_and_the_refutations(report: Path) -> None:
    lines = (report / "report.md").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "## ❌ attncert: 3 verdicts are not as expected"
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + len(several())
    assert len({line.replace("\\|", "").count("|") for line in table}) == 1
    commands = [line for line in lines if "attncert reproduce" in line]
    assert len(commands) == 7


def test_markdown_tables_stay_tables_with_hostile_names(tmp_path: Path) -> None:
    from verify.report import write_report

    write_report(hostile(), tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 3
    assert len({line.replace("\\|", "").count("|") for line in table}) == 1
