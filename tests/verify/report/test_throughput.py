"""The throughput section: figures from the certificate, and nothing where nothing was timed."""

from __future__ import annotations

from dataclasses import replace

from tests.verify.report.factory import certificate
from verify.report.sections.throughput import SECTION

TIMING = {
    "shape": [1, 4, 256, 64],
    "rounds": 9,
    "seconds_median": 0.0123,
    "seconds_least": 0.0101,
    "overhead": 0.0004,
    "flops_per_second": 5.4e9,
    "bytes_per_second": 1.2e8,
    "tokens_per_second": 20813.0,
    "verdict": "PASS",
}


def test_timings_of_a_certificate_are_shown() -> None:
    """Milliseconds, rates and shape are those of the certificate; another time is another page."""
    timed = replace(certificate(), throughput=(TIMING,))
    page = SECTION.html([timed]).replace("\N{NO-BREAK SPACE}", " ")
    for text in ("1 × 4 × 256 × 64", "12.3", "10.1", "5.4"):
        assert text in page
    slower = replace(timed, throughput=({**TIMING, "seconds_median": 0.0456},))
    assert "45.6" in SECTION.html([slower])
    assert SECTION.markdown is not None
    assert "12.3" in SECTION.markdown([timed])


def test_section_is_left_out_where_nothing_was_timed() -> None:
    """No timing, no heading."""
    assert SECTION.html([certificate()]) == ""
