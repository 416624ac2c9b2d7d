"""The Pareto picture: who is on the front, and what the sentences say."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.verify.report.factory import certificate, record
from verify.certificate import Certificate
from verify.report import write_report
from verify.report.pareto import Point, bits, compared, front, points
from verify.report.sections.accuracy_speed import SECTION, answers

SHAPE = "prefill:1x4x1024x64"


def timing(rate: float, label: str = SHAPE, **changes: Any) -> dict[str, Any]:
    made = {"label": label, "shape": [1], "rounds": 5, "seconds_median": 1.0 / rate, "flops": 1e9}
    return {**made, "bytes": 1.0, "tokens_per_second": rate, "trust": "poor", **changes}


def timed(name: str, fmt: str, rate: float, scaled: float, **changes: Any) -> Certificate:
    """A certificate whose every case has an error of `scaled` u Σ P|v|."""
    made = record(fmt=fmt)
    one = replace(made, metrics={**made.metrics, "max_scaled": scaled})
    return certificate(name, fmt, records=(one,), throughput=(timing(rate),), **changes)


def point(
    name: str, rate: float, accuracy: float, certified: bool = True, fmt: str = "fp16"
) -> Point:
    return Point(name, fmt, "B", certified, rate, accuracy, 9, 0.5, None, "good")


def test_the_front_is_what_no_certified_kernel_dominates() -> None:
    """Slow and fine, fast and coarse are on it; slower and coarser, and refuted, are not."""
    fine, fast = point("fine", 1.0, 20.0), point("fast", 9.0, 8.0)
    dominated, refuted = point("worse", 0.5, 19.0), point("wrong", 99.0, 30.0, certified=False)
    assert front([fine, dominated, fast, refuted]) == [fine, fast]
    twin = point("twin", 1.0, 20.0)
    assert front([fine, twin]) == [fine, twin]
    assert front([refuted]) == []


def test_bits_are_the_negative_logarithm_of_the_error() -> None:
    """An error of two roundings of bf16, u = 2^-8, leaves 7 bits; u of fp32 leaves 24."""
    certificates = [timed("a", "bf16", 10.0, 2.0), timed("a", "fp32", 5.0, 1.0)]
    narrow, wide = points(certificates, SHAPE)
    assert (narrow.bits, wide.bits) == (7.0, 24.0)
    assert bits(0.0) == 60.0
    assert bits(4.0) == 0.0


def test_what_bf16_costs_is_said_in_bits_and_speed() -> None:
    certificates = [timed("a", "bf16", 10.0, 2.0), timed("a", "fp32", 5.0, 1.0)]
    told = answers(points(certificates, SHAPE))
    assert told[-2].startswith("What bf16 costs: 17 of 24 correct bits, for 2 times the speed")
    assert told[-1] == "Trust in some of these times is poor: see Throughput."
    page = SECTION.html(certificates)
    assert "What bf16 costs" in page
    assert "<svg" in page


def test_a_refuted_kernel_is_never_recommended_and_its_worst_case_is_lost() -> None:
    naive = certificate("naive", "fp16", naive=True, throughput=(timing(99.0),))
    right = timed("right", "fp16", 1.0, 1.0)
    found = points([naive, right], SHAPE)
    assert found[0].tightness == math.inf
    assert [p.title for p in front(found)] == ["right fp16"]
    assert "the fastest certified kernel is right fp16" in answers(found)[0]
    alone = answers(points([naive, replace(naive, format="bf16")], SHAPE))[:2]
    assert alone == [
        "fp16: none of the timed kernels is certified.",
        "bf16: none of the timed kernels is certified.",
    ]


def test_a_time_that_cannot_be_true_recommends_nobody() -> None:
    liar = timed("liar", "fp16", 1e9, 1.0)
    liar = replace(liar, throughput=(timing(1e9, problems=["below the physical floor"]),))
    assert front(points([liar], SHAPE)) == []


def test_kernels_are_compared_on_the_cases_that_all_were_judged_on() -> None:
    """One kernel claims a family on which everybody errs more: that must not make it look worse."""

    def made(name: str, fmt: str, extra: int) -> Certificate:
        easy = [record("needle", f"{i}", fmt=fmt) for i in range(5)]
        hard = [record("late_jump", f"{i}", fmt=fmt) for i in range(extra)]
        sized = [replace(r, metrics={**r.metrics, "max_scaled": 1.0}) for r in easy]
        sized += [replace(r, metrics={**r.metrics, "max_scaled": 64.0}) for r in hard]
        return certificate(name, fmt, records=tuple(sized), throughput=(timing(1.0),))

    few, many = points([made("few", "fp16", 0), made("many", "fp16", 9)], SHAPE)
    assert (few.bits, many.bits) == (11.0, 11.0)
    assert many.cases == 5
    alone = points([made("many", "fp16", 9)], SHAPE)
    assert alone[0].bits == 11.0 - 6.0


def test_the_shape_that_most_were_timed_at_is_compared() -> None:
    one = timed("a", "fp16", 1.0, 1.0)
    both = replace(one, throughput=(timing(1.0), timing(2.0, "decode:1x1x9x64")))
    assert compared([one, both]) == SHAPE
    assert compared([certificate()]) is None


@pytest.mark.parametrize("count", [0, 1])
def test_the_section_is_left_out_where_nothing_compares(count: int) -> None:
    assert SECTION.html([timed("a", "fp16", 1.0, 1.0)][:count]) == ""
    assert SECTION.markdown is not None
    assert SECTION.markdown([timed("a", "fp16", 1.0, 1.0)][:count]) == ""


def test_a_report_with_timings_has_the_picture(tmp_path: Path) -> None:
    certificates = [timed("a", "bf16", 10.0, 2.0), timed("a", "fp32", 5.0, 1.0)]
    write_report(certificates, tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert 'id="accuracy_speed"' in page
    assert "What bf16 costs" in (tmp_path / "report.md").read_text()
