"""`attncert study`, and a study beside certificates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.verify.report.factory import several
from verify import studies
from verify.certificate import certificate_files, write
from verify.commands.publish import command as publish
from verify.commands.report import command as report
from verify.commands.study import command
from verify.errors import UsageError
from verify.studies.document import (
    Chart,
    Claim,
    Document,
    Judgement,
    Line,
    Part,
    Table,
    read,
)
from verify.studies.pages import markdown


def document() -> Document:
    """A study with one of everything, and names that markup must not swallow."""
    nan = float("nan")
    chart = Chart(
        "Up & <away>", "A line.", "x", "y", (Line("one", (1.0, 2.0, 3.0), (1.0, 2.0, nan)),)
    )
    claim = Claim("2 < 3 | always", "arithmetic", Judgement("holds", "2 and 3"))
    table = Table("T", ("what", "value"), (("a", 1.5), ("b", nan), ("c", None)))
    part = Part("part", "A part", "Text.", (claim,), (chart,), (table,))
    return Document("scaling", "A study", "Lead.", "Drawn.", (part,), 1.0, 2.0)


def test_study_beside_certificates_becomes_a_section_and_no_certificate(tmp_path: Path) -> None:
    """The report shows claims and pictures of the study; the study is not read as a certificate."""
    write(several()[0], tmp_path / "a.json")
    studies.write(document(), tmp_path)
    assert [p.name for p in certificate_files((tmp_path,))] == ["a.json"]
    result = CliRunner().invoke(report, [str(tmp_path)])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "report.html").read_text()
    assert 'id="study-scaling"' in page
    assert "Up &amp; &lt;away&gt;" in page
    assert "2 &lt; 3 | always" in page
    assert "A study" in (tmp_path / "report.md").read_text()


def test_study_in_the_output_folder_is_handed_to_the_main_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`attncert publish` passes its section on."""
    given: dict[str, Any] = {}

    def run(*arguments: Any, **options: Any) -> tuple[list[Any], list[Path]]:
        given.update(options)
        return [], []

    monkeypatch.setattr("verify.publishing.publish", run)
    studies.write(document(), tmp_path)
    CliRunner().invoke(publish, ["--output", str(tmp_path), "--quiet"])
    assert set(given["more"]) == {"study-scaling"}


@pytest.mark.slow
def test_study_in_the_output_folder_is_published_with_the_report(tmp_path: Path) -> None:
    """The main job shows it too."""
    studies.write(document(), tmp_path)
    only = ["--kernel", "textbook-softmax-naive", "--dtype", "fp16", "--family", "seed_case"]
    result = CliRunner().invoke(
        publish, ["--output", str(tmp_path), "--profile", "smoke", "--quiet", *only]
    )
    assert result.exit_code == 0, result.output
    assert 'id="study-scaling"' in (tmp_path / "report.html").read_text()


def test_study_json_keeps_gaps_and_words_of_numbers(tmp_path: Path) -> None:
    """NaN is a gap in a line and a word in a table, and both survive a round trip."""
    paths = studies.write(document(), tmp_path)
    part = read(paths[0]).parts[0]
    assert part.charts[0].lines[0].y == (1.0, 2.0, None)
    assert part.tables[0].rows[1:] == (("b", "NaN"), ("c", None))


def test_study_file_that_is_none_is_refused(tmp_path: Path) -> None:
    """A damaged study names itself and the remedy."""
    path = tmp_path / "scaling.study.json"
    for text in ("", "[]", '{"version": 1}', '{"version": 0, "parts": []}'):
        path.write_text(text)
        with pytest.raises(UsageError, match="again"):
            read(path)


def test_study_refuses_unknown_names(tmp_path: Path) -> None:
    assert CliRunner().invoke(command, ["nonsense", "--output", str(tmp_path)]).exit_code == 2
    with pytest.raises(UsageError, match="scaling"):
        studies.run("nonsense")


@pytest.mark.parametrize("verdict", ["holds with limits", "not measured"])
def test_judgement_with_limits_must_name_them(verdict: str) -> None:
    with pytest.raises(UsageError, match="needs its limits"):
        Judgement(verdict, "figure")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="unknown verdict"):
        Judgement("probably", "figure")  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("name", studies.STUDIES)
def test_whole_study_runs_and_is_written(name: str, tmp_path: Path) -> None:
    """The whole study in its documented size; only what cannot be measured here may be missing."""
    result = CliRunner().invoke(command, [name, "--output", str(tmp_path)])
    assert result.exit_code == 0, result.output
    found = read(tmp_path / f"{name}.study.json")
    assert found.whole
    assert found.claims
    assert "too small to say anything" not in (tmp_path / f"{name}.html").read_text()


@pytest.mark.parametrize("name", studies.STUDIES)
def test_published_study_is_whole_and_its_markdown_is_that_of_its_numbers(name: str) -> None:
    """What reports/studies shows follows from the JSON beside it."""
    folder = Path(__file__).parents[3] / "reports" / "studies"
    found = read(folder / f"{name}.study.json")
    assert found.whole
    assert markdown(found) == (folder / f"{name}.md").read_text(encoding="utf-8")
