"""The report as a whole: complete, self-contained, deterministic, and true to its certificates."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.verify.report.factory import certificate, many, record, several
from verify.certificate import Certificate, Skipped
from verify.judge import Verdict
from verify.report import SECTIONS, ReportError, write_report
from verify.report.section import Section
from verify.report.sections import summary, verdict

# Nothing was timed or waived in these certificates, and empty sections are left out.
UNDRAWN = ("throughput", "accuracy_speed", "waivers")
VOID = {"meta", "link", "input", "br", "path", "use", "rect"}


class Nesting(HTMLParser):
    """Checks that every element is closed in order, and gathers ids and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        # `td` and `li` of the heat map may be left open, as HTML allows.
        if tag in ("td", "th", "tr") and self.open and self.open[-1] == "td":
            self.open.pop()
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == "tr" and self.open[-1] == "td":
            self.open.pop()
        if tag not in VOID:
            assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(html: str) -> Nesting:
    found = Nesting()
    found.feed(html)
    found.close()
    return found


def test_all_sections_are_in_the_page_in_their_order(report: Path) -> None:
    html = (report / "report.html").read_text(encoding="utf-8")
    drawn = [name for name in SECTIONS if name not in UNDRAWN]
    places = [html.find(f'<section id="{name}"') for name in drawn]
    assert -1 not in places
    assert places == sorted(places)
    assert "could not be drawn" not in html


def test_the_page_is_well_nested_and_its_ids_are_unique(report: Path) -> None:
    found = parsed((report / "report.html").read_text(encoding="utf-8"))
    assert found.open == []
    assert len(found.ids) == len(set(found.ids))


def test_the_page_refers_to_nothing_outside_itself(report: Path) -> None:
    html = (report / "report.html").read_text(encoding="utf-8")
    assert re.findall(r'(?:src|href)="(?!#|data:,)[^"]*"', html) == []
    assert "http://" not in html
    assert "https://" not in html
    assert "@import" not in html
    assert "default-src 'none'" in html


def test_every_picture_has_a_text_and_every_table_a_caption(report: Path) -> None:
    html = (report / "report.html").read_text(encoding="utf-8")
    pictures = re.findall(r"<svg[^>]*>", html)
    assert pictures
    assert all('role="img"' in p and re.search(r'aria-label="[^"]{20}', p) for p in pictures)
    assert html.count("<table") == html.count("<caption")
    heads = re.findall(r"<th[ >][^>]*>?", html)
    assert all("scope=" in head for head in heads)


def test_pictures_follow_the_theme_by_variables_only(report: Path) -> None:
    html = (report / "report.html").read_text(encoding="utf-8")
    pictures = "".join(re.findall(r"<svg.*?</svg>", html, re.S))
    assert "var(--s1)" in pictures
    assert re.findall(r"#0[12]0[12]0\d", pictures) == []
    assert "#000000" not in pictures
    assert "#ffffff" not in pictures


def test_equal_certificates_give_equal_bytes_in_any_order(tmp_path: Path) -> None:
    chosen = several()[:2]
    for name, certificates in (("a", chosen), ("b", chosen[::-1])):
        (tmp_path / name).mkdir()
        write_report(certificates, tmp_path / name)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


def test_the_paths_written_are_returned_and_no_temporary_file_stays(tmp_path: Path) -> None:
    paths = write_report([certificate()], tmp_path)
    assert [p.name for p in paths] == [
        *("report.html", "report.md", "results.csv", "junit.xml", "summary.json")
    ]
    assert set(tmp_path.iterdir()) == set(paths)


def test_ninety_certificates_of_300_records_stay_below_three_megabytes(tmp_path: Path) -> None:
    write_report(many(90, 300), tmp_path)
    assert (tmp_path / "report.html").stat().st_size < 3_000_000
    assert (tmp_path / "report.md").stat().st_size < 100_000


def test_no_certificate_gives_a_report_that_certifies_nothing(tmp_path: Path) -> None:
    write_report([], tmp_path)
    assert "Nothing is certified" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Nothing is certified" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_a_certificate_without_records_is_shown_as_undecided(tmp_path: Path) -> None:
    write_report([certificate(records=(), skipped=())], tmp_path)
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "INCONCLUSIVE, no case was run" in html


HOSTILE = "<script>alert(1)</script>\"'&`|$\\frac{1}{$ </script>]]>\x0b"


def hostile() -> list[Certificate]:
    """Every text that a kernel or its author can choose is hostile."""
    wrong = replace(
        record("near_ties", HOSTILE, verdict=Verdict.FAIL, tightness=7.0, reason=HOSTILE),
        family=HOSTILE,
        stages={HOSTILE: 1.0},
    )
    prop = record("single_key", HOSTILE, check=f"property:{HOSTILE}", reason=HOSTILE)
    made = certificate(
        HOSTILE,
        records=(record(), wrong, prop),
        skipped=(Skipped(HOSTILE, HOSTILE, HOSTILE),),
        environment={"attncert": HOSTILE, HOSTILE: {"deep": HOSTILE}},
        selftest={HOSTILE: HOSTILE},
        warnings=(HOSTILE,),
        command=HOSTILE,
    )
    kernel = {**made.kernel, "summary": HOSTILE, "identity": {"file": HOSTILE}}
    return [replace(made, kernel=kernel, device="cpu<b>")]


def test_hostile_names_and_reasons_stay_text(tmp_path: Path) -> None:
    write_report(hostile(), tmp_path)
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in html
    assert html.count("<script") == 2
    assert html.count("</script>") == 2
    assert "<b>" not in html
    assert "&lt;script&gt;alert(1)" in html
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "<script" not in re.sub("`[^`]*`", "", markdown)  # in a code span it is text


def test_numbers_that_are_not_finite_are_written_as_words() -> None:
    lost = record("seed_case", verdict=Verdict.FAIL, value=math.nan)
    infinite = record("needle", verdict=Verdict.FAIL, value=-math.inf)
    endless = record("late_jump", verdict=Verdict.FAIL, tightness=math.inf)
    html = verdict.SECTION.html([certificate(records=(lost,))])
    assert "output is NaN, truth is 0.2501" in html
    html = verdict.SECTION.html([certificate(records=(infinite,))])
    assert "output is -infinity, truth is 0.2501" in html
    assert "infinity" in summary.SECTION.html([certificate(records=(endless,))])


def test_a_whole_report_of_numbers_that_are_not_finite_can_be_drawn(tmp_path: Path) -> None:
    odd = [
        record(
            "score_ladder", str(i), verdict=Verdict.FAIL, value=v, tightness=t, notes={"level": n}
        )
        for i, (v, t, n) in enumerate(
            [
                (math.nan, 0.0, 1000.0),
                (math.inf, 0.0, -1000.0),
                (0.25, math.inf, math.inf),
                (0.25, math.nan, 5.0),
                (0.25, 1e300, 7.0),
            ]
        )
    ]
    write_report([certificate(records=tuple(odd))], tmp_path)


BASE = record("needle", "64x64", tightness=0.31, bound_ulps=2.0)


@pytest.mark.parametrize(
    ("changes", "before", "after"),
    [
        ({"records": (replace(BASE, tightness=0.777),)}, "0.31", "0.777"),
        ({"records": (replace(BASE, median_tightness=0.0456),)}, "0.0775", "0.0456"),
        ({"records": (replace(BASE, metrics={"max_ulp": 17.25}),)}, "0.62", "17.2"),
        ({"records": (replace(BASE, metrics={"over_rounding": 3.75}),)}, "1.31", "3.75"),
        ({"records": (BASE,) * 7}, ">1<", ">7<"),
        ({"planned": 23}, ">2<", ">23<"),
        ({"skipped": (Skipped("a", "b", "c"),) * 5}, None, ">5<"),
        ({"grade": None}, "B: binary32", None),
        ({"expected": "fail"}, ">pass<", ">refuted<"),
        ({"model": {"name": "eager", "meaning": "", "variants": [{}]}}, ">flash<", ">eager<"),
        ({"device": "cuda"}, ">cpu<", ">cuda<"),
        ({"profile": "smoke"}, ">standard<", ">smoke<"),
        ({"verdict": Verdict.INCONCLUSIVE}, "✓ PASS", "? INCONCLUSIVE"),
    ],
)
def test_the_summary_changes_with_the_certificate(
    changes: dict[str, object], before: str | None, after: str | None
) -> None:
    original = certificate(records=(BASE,))
    old = summary.SECTION.html([original])
    new = summary.SECTION.html([replace(original, **changes)])  # type: ignore[arg-type]
    if before is not None:
        assert before in old
    if after is not None:
        assert after not in old
        assert after in new
    assert old != new


def test_a_lost_value_counts_as_worse_than_any_number() -> None:
    lost = record("seed_case", verdict=Verdict.FAIL, value=math.nan)
    far = record("needle", verdict=Verdict.FAIL, tightness=1e6)
    html = summary.SECTION.html([certificate(records=(far, lost))])
    assert "✗ NaN or infinite" in html


def _broken(certificates: object) -> str:
    raise ZeroDivisionError("no <b>rows</b>")


def test_a_section_that_raises_is_shown_and_loses_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from verify import report

    sections = {**SECTIONS, "stages": Section(100, "Stages", _broken, _broken)}
    monkeypatch.setattr(report, "SECTIONS", sections)
    with pytest.raises(ReportError, match="stages: ZeroDivisionError: no <b>rows</b>") as caught:
        write_report(several()[:2], tmp_path)
    assert list(caught.value.problems) == ["stages"]
    assert {p.name for p in caught.value.paths} == {p.name for p in tmp_path.iterdir()}
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "ZeroDivisionError: no &lt;b&gt;rows&lt;/b&gt;" in html
    assert '<section id="grades"' in html
    assert '<section id="reproduce"' in html
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "**Stages could not be drawn:**" in markdown
    assert "textbook-softmax-naive" in markdown


def test_certificates_of_one_kernel_are_told_apart(tmp_path: Path) -> None:
    twice = [certificate(created="2026-01-01"), certificate(created="2026-02-02")]
    on_gpu = certificate(device="cuda")
    write_report([*twice, on_gpu], tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    for title in (
        "fp16, cpu, standard, 2026-01-01",
        "fp16, cpu, standard, 2026-02-02",
        "fp16, cuda",
    ):
        assert f"textbook-attention-online {title}" in text


def test_importing_the_report_loads_neither_matplotlib_nor_jinja() -> None:
    import subprocess
    import sys

    code = (
        "import sys, verify.report; list(verify.report.SECTIONS); "
        "print({'matplotlib', 'jinja2', 'torch'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
