"""What each section says."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.verify.report.factory import certificate, finding, record, seed_record, several
from verify.certificate import Certificate, Skipped
from verify.judge import Verdict
from verify.metrics import HISTOGRAM_EDGES
from verify.report import facts, words
from verify.report.page import TITLE, page
from verify.report.sections import (
    environment,
    error_distribution,
    grades,
    growth,
    heat_map,
    not_proved,
    properties,
    refutations,
    score_range,
    seed_case,
    selftest,
    skipped,
    stages,
    verdict,
)


def test_the_banner_is_good_where_the_naive_kernel_is_refuted() -> None:
    right, naive = certificate(), certificate("naive", naive=True)
    assert verdict.headline([right, naive])[:2] == (
        True,
        "Every kernel that should be right is certified; the others are refuted",
    )
    assert verdict.headline([right])[:2] == (True, "Every kernel is certified")
    assert verdict.headline([naive])[:2] == (True, "Every kernel is refuted, as it must be")


def _finding(fmt: str) -> Certificate:
    naive = certificate("other", fmt, naive=True)
    return replace(naive, kernel={**naive.kernel, "refuted": "no shift"})


def test_the_banner_is_not_green_where_a_finding_is_known() -> None:
    """As expected, but nobody may read it as certified; equal reasons are told once."""
    page = str(verdict.SECTION.html([certificate(), _finding("fp16"), _finding("bf16")]))
    assert verdict.headline([certificate(), _finding("fp16")])[:2] == (
        True,
        "1 of 2 as declared; 1 refuted, as known",
    )
    assert 'class="banner known"' in page
    assert "fp16, bf16: no shift" in page
    assert verdict.SECTION.markdown is not None
    assert verdict.SECTION.markdown([_finding("fp16")]).startswith("## ⚠️")


def test_the_title_names_the_library_that_all_kernels_belong_to() -> None:
    """A page of one library says which, and which version; any other asks the general question."""
    own = certificate()
    theirs = _of("onnx", "1.2.3")
    assert "<h1>How accurate is onnx 1.2.3?</h1>" in page([theirs, theirs], {})[0]
    assert f"<h1>{TITLE}</h1>" in page([theirs, own], {})[0]
    assert f"<h1>{TITLE}</h1>" in page([theirs, _of("jax", "0.1")], {})[0]


def _of(library: str, version: str) -> Certificate:
    plain = certificate()
    identity = {**plain.kernel["identity"], "package": {library: version}}
    return replace(plain, kernel={**plain.kernel, "identity": identity})


def test_the_banner_is_bad_where_a_kernel_shipped_to_be_refuted_passes() -> None:
    soft = replace(certificate(), expected="fail")
    good, head, _ = verdict.headline([soft])
    assert not good
    assert head == "1 verdict is not as expected"
    assert verdict.surprise(soft) == "PASS, although this kernel is shipped to be refuted"


def test_the_banner_is_never_good_where_planned_cases_are_missing() -> None:
    short = certificate(missing=3)
    assert short.verdict is Verdict.INCONCLUSIVE
    assert not verdict.headline([short])[0]
    assert verdict.surprise(short) == "INCONCLUSIVE, 3 planned cases are missing"


def test_a_vacuous_bound_is_called_not_certifiable() -> None:
    loose = record(verdict=Verdict.OUT_OF_SCOPE, reason="vacuous: the bound exceeds the signal")
    found = certificate(records=(loose,))
    assert facts.status(found).word == "NOT CERTIFIABLE"
    assert "∅ NOT CERTIFIABLE" in verdict.SECTION.html([found])
    flagged = record(verdict=Verdict.OUT_OF_SCOPE, reason="overflow permitted")
    assert facts.status(certificate(records=(flagged,))).word == "OUT OF SCOPE"


def test_the_card_shows_bits_truth_error_bound_and_the_command() -> None:
    wrong = record("late_jump", "64x64", verdict=Verdict.FAIL, tightness=38.0, bound_ulps=2.0)
    html = refutations.SECTION.html([certificate("mine", records=(record(), wrong))])
    assert wrong.finding is not None
    for text in (
        "late_jump/fp16/64x64",
        "0x33d5",
        "0x1.0000000000000p-2",
        "0.2501 ± 1e-33",
        "= 76 ulp",
        "P and PV",
        "attncert reproduce mine-fp16-cpu.json#late_jump/fp16/64x64",
    ):
        assert text in html


def test_markdown_lists_at_most_so_many_refutations() -> None:
    assert refutations.SECTION.markdown is not None
    naive = [certificate(f"naive-{i:02d}", naive=True) for i in range(30)]
    text = refutations.SECTION.markdown(naive)
    assert text.count("attncert reproduce") == refutations.MOST_IN_MARKDOWN
    assert "and 10 more" in text
    assert refutations.SECTION.markdown([certificate()]) == ""


def test_the_seed_case_shows_nan_beside_the_truth() -> None:
    html = seed_case.SECTION.html(several())
    assert "✗ NaN" in html
    for truth in ("0.244728", "0.665241", "0.0900306"):
        assert truth in html


def test_the_seed_case_takes_its_numbers_from_the_certificates() -> None:
    made = seed_record("fp32", False, 1)
    assert made.finding is not None
    other = replace(made, finding=replace(made.finding, truth="0.123456789", value="0.125"))
    alone = certificate("only", "fp32", operation="softmax", records=(other,))
    html = seed_case.SECTION.html([alone])
    assert "output [0, 1] = <code>0.123457</code>" in html
    assert "output [0, 2] is not kept by any" in html
    assert "0.665241" not in html


def test_the_seed_case_says_so_where_it_was_not_run() -> None:
    assert "hold no record" in seed_case.SECTION.html([certificate(records=(record(),))])


def test_the_score_line_breaks_out_where_the_naive_kernel_overflows() -> None:
    naive = certificate("naive", "fp16", naive=True)
    line = score_range.line("naive", naive)
    lost = {p.level for p in line.points if p.ulps is None}
    assert {11.1, 1000.0, 3e38} <= lost
    assert 11.0 not in lost
    html = score_range.SECTION.html([naive, certificate()])
    assert f"naive fp16: {line.lost} levels of {len(line.points)}" in html
    assert "NaN or infinite" in html


def test_the_worst_record_of_a_level_is_drawn() -> None:
    notes = {"level": 88.7}
    calm = record("score_ladder", "tail", tightness=0.2, notes=notes)
    worse = record("score_ladder", "top", tightness=0.9, notes=notes)
    lost = record("score_ladder", "x", verdict=Verdict.FAIL, value=math.inf, notes=notes)
    line = score_range.line("k", certificate(records=(calm, worse)))
    assert [p.record.case for p in line.points] == [worse.case]
    line = score_range.line("k", certificate(records=(worse, lost, calm)))
    assert [p.ulps for p in line.points] == [None]


def test_without_a_ladder_the_scores_of_the_records_are_used() -> None:
    found = record(scores=(-40.0, 12.0))
    line = score_range.line("k", certificate(records=(found,)))
    assert [p.level for p in line.points] == [-40.0]


def test_the_bound_is_counted_in_ulps_of_the_truth() -> None:
    made = finding(0.25, 0.2501, 0.5, 1.75, "bf16")
    assert facts.bound_in_ulps(made, "bf16") == pytest.approx(1.75)


@pytest.mark.parametrize(
    ("fmt", "expected"),
    [
        ("fp16", (11.09, -9.70, -17.33, 65504.0, -65504.0, 88.72, -87.34, -103.97)),
        ("bf16", (88.72, -87.34, -92.88, -103.97)),
        ("fp32", (88.72, -87.34, -103.97)),
    ],
)
def test_the_thresholds_are_those_of_the_format(fmt: str, expected: tuple[float, ...]) -> None:
    found = [x for x, _ in score_range.thresholds(fmt)]
    assert sorted(found) == pytest.approx(sorted(expected), abs=0.01)


def test_the_axis_of_scores_can_be_inverted() -> None:
    for x in (-3e38, -1e5, -88.7, 0.0, 11.09, 2000.0, 1e5, 3e38):
        assert float(score_range._inverse(score_range._forward(x))) == pytest.approx(x, rel=1e-9)


def test_a_heat_cell_shows_the_worst_record_of_its_family() -> None:
    calm, worse = record("needle", "a", tightness=0.2), record("needle", "b", tightness=0.93)
    lost = record("seed_case", verdict=Verdict.FAIL, value=math.nan)
    html = heat_map.SECTION.html([certificate(records=(calm, worse, lost))])
    assert ">✓ 0.93</button>" in html
    assert ">✓ 0.2</button>" not in html
    assert ">✗ NaN</button>" in html


def test_a_family_that_was_not_run_is_marked_as_such() -> None:
    one = certificate("one", records=(record("needle"),))
    two = certificate("two", records=(record("near_ties"),))
    assert heat_map.SECTION.html([one, two]).count('<span class="none">–</span>') == 2


def test_all_bins_are_counted_and_shares_are_those_of_the_edges() -> None:
    bins = [0] * (len(HISTOGRAM_EDGES) + 1)
    bins[7], bins[8], bins[0], bins[11] = 30, 20, 1, 49
    made = record(metrics={"histogram": bins, "mean_ulp": 0.125, "z": -13.0})
    found = error_distribution.distribution(certificate(records=(made,)))
    assert found is not None
    assert found.total == 100
    assert HISTOGRAM_EDGES[7] == 0.0
    assert found.within(0.25) == pytest.approx(0.5)
    assert found.within(2.0) == pytest.approx(0.99)
    assert (found.mean, found.z) == (0.125, 13.0)


def test_a_share_is_100_percent_only_where_it_is() -> None:
    assert error_distribution.percent(1.0) == "100 %"
    assert error_distribution.percent(0.0) == "0 %"
    assert error_distribution.percent(0.9999999) == "> 99.99 %"
    assert error_distribution.percent(1e-7) == "< 0.01 %"


def test_a_ratio_never_rounds_to_the_bound() -> None:
    assert words.ratio(0.99996) == "0.99996"
    assert words.ratio(1.00001) == "1.00001"
    assert words.ratio(1.0) == "1"
    assert words.ratio(1 - 6e-13) == "1 − 6e-13"
    assert words.ratio(0.123456) == "0.123"


def test_growth_is_read_off_the_family_with_most_sizes() -> None:
    made = certificate()
    assert growth.family_with_most_sizes([made], "n") == "standard_normal"
    found = growth.series(made, "needle", "n")
    assert list(found) == [16.0, 64.0, 257.0, 1024.0]
    lone = certificate(records=(record("needle"),))
    assert growth.SECTION.html([lone]) == ""


def test_the_shares_of_the_stages_sum_to_one() -> None:
    found = stages.shares(certificate())
    assert sum(found.values()) == pytest.approx(1.0)
    assert stages.dominating(certificate()).total() == len(certificate().records)


def test_properties_are_told_with_their_reason() -> None:
    broken = record(
        "single_key", check="property:one_key", verdict=Verdict.FAIL, reason="3 of 64 bits differ"
    )
    html = properties.SECTION.html([certificate(records=(broken,))])
    assert "3 of 64 bits differ" in html
    assert "one key" in html
    assert "Every property that was checked holds" in properties.SECTION.html([certificate()])


def test_a_nan_refutes_every_contract() -> None:
    naive = certificate("naive", naive=True)
    assert grades.largest(naive, "B") == math.inf
    assert grades.largest(certificate(records=(record(tightness=0.5),)), "A") == pytest.approx(1.1)
    assert grades.contracts([naive]) == ["A", "B", "C"]


def test_the_selftest_is_shown_or_missed() -> None:
    assert "carry no such summary" in selftest.SECTION.html([certificate()])
    backed = certificate(selftest={"controls": 37, "killed": 37})
    assert "37" in selftest.SECTION.html([backed])


def test_the_environment_tells_what_differs() -> None:
    old = certificate("one", environment={"attncert": "0.1.0", "worker": {"torch": "2.4.0"}})
    new = certificate("two", environment={"attncert": "0.1.0", "worker": {"torch": "2.13.0"}})
    html = environment.SECTION.html([old, new])
    same, _, differing = html.partition("What differs")
    assert "0.1.0" in same
    assert "2.4.0" not in same
    assert "2.4.0" in differing
    assert "2.13.0" in differing


def test_skipped_cases_are_grouped_by_reason_with_counts() -> None:
    left_out = tuple(Skipped(f"m/{i}", "masks", "does not claim mask") for i in range(3))
    other = Skipped("w/0", "windows", "does not claim window")
    html = skipped.SECTION.html([certificate(skipped=(*left_out, other), missing=2)])
    assert "<strong>3 cases</strong>: does not claim mask" in html
    assert "<strong>1 case</strong>: does not claim window" in html
    assert "masks (3)" in html
    assert "neither run nor skipped" in html


def test_limits_name_what_was_run_in_process_and_by_smoke() -> None:
    weak = certificate("mine", isolation="in-process", profile="smoke")
    text = " ".join(not_proved.limits([weak]))
    assert "mine fp16" in text
    assert "not sufficient" in text
    assert "Other inputs may" in text


def test_limits_and_summary_name_the_way_of_the_evidence() -> None:
    from verify.evidence import statement

    for way, named in (("graded outputs", "computed elsewhere"), ("C ABI", "shared library")):
        other = certificate("theirs", evidence=statement(way))
        text = " ".join(not_proved.limits([certificate("mine"), other]))
        assert "theirs fp16" in text
        assert named in text
        assert "This cannot prove that" in text or "This cannot prove who" in text
        assert verdict.SECTION.markdown is not None
        assert named in verdict.SECTION.markdown([other])
    assert facts.ways([certificate("mine", evidence=statement("in worker"))]) == []


def test_file_names_are_those_of_the_campaign() -> None:
    from verify.campaign import file_stem

    for name in ("torch-sdpa", "a.py:f", "path/to/my file.py:f", "online[block=16,format=fp32]"):
        made = certificate(name, "bf16", device="cuda:0")
        assert facts.file_name(made) == f"{file_stem(name, 'bf16', 'cuda:0')}.json"


def test_a_command_is_quoted_where_a_shell_would_misread_it() -> None:
    import shlex

    made = certificate("mine")
    command = facts.reproduce(made, "a b;$(c)#'d'")
    assert shlex.split(command) == ["attncert", "reproduce", "mine-fp16-cpu.json#a b;$(c)#'d'"]
