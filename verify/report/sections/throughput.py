"""Throughput: how long a call took at each shape, where the run timed the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from verify.certificate import Certificate
from verify.report import facts
from verify.report.section import Section
from verify.report.table import Cell, Column, quantity, table
from verify.report.template import render

TEMPLATE = """
<p>Seconds of one call by the clock of the process that holds the truth, on standard-normal inputs
that are new in every round. The conversation with the kernel's process is part of the time and is
given apart. The output of the last round was judged like any other. These machines may be busy:
compare rows of one run, not of two.</p>
{{ table }}
"""
COLUMNS = (
    Column("Kernel and format"),
    Column("Shape"),
    Column("Rounds", True),
    Column("Median (ms)", True),
    Column("Least (ms)", True),
    Column("of it conversation (ms)", True),
    Column("GFLOP/s", True),
    Column("GB/s", True),
    Column("Tokens/s", True),
    Column("Last output"),
)
MARKDOWN = (
    "| Kernel | Shape | Median (ms) | GFLOP/s | Tokens/s |\n| --- | --- | --- | --- | --- |\n"
)

Timed = list[tuple[str, Mapping[str, Any]]]


def timed(certificates: Sequence[Certificate]) -> Timed:
    """Every timing with the title of its certificate."""
    pairs = zip(facts.titles(certificates), certificates, strict=True)
    return [(title, timing) for title, c in pairs for timing in c.throughput]


def _row(title: str, timing: Mapping[str, Any]) -> list[Cell]:
    median = float(timing["seconds_median"])
    return [
        Cell(title, heads_row=True),
        Cell(" × ".join(map(str, timing["shape"]))),
        quantity(float(timing["rounds"])),
        quantity(median * 1e3),
        quantity(float(timing.get("seconds_least", median)) * 1e3),
        quantity(float(timing.get("overhead", 0.0)) * 1e3),
        quantity(float(timing.get("flops_per_second", 0.0)) / 1e9),
        quantity(float(timing.get("bytes_per_second", 0.0)) / 1e9),
        quantity(float(timing.get("tokens_per_second", 0.0))),
        Cell(str(timing.get("verdict", "not judged"))),
    ]


def _html(certificates: Sequence[Certificate]) -> str:
    found = timed(certificates)
    if not found:
        return ""
    rows = [_row(title, timing) for title, timing in found]
    return render(TEMPLATE, table=table("Throughput", COLUMNS, rows))


def _markdown(certificates: Sequence[Certificate]) -> str:
    lines = [
        f"| {title} | {'x'.join(map(str, t['shape']))} | {t['seconds_median'] * 1e3:.3g} "
        f"| {t.get('flops_per_second', 0.0) / 1e9:.3g} | {t.get('tokens_per_second', 0.0):.3g} |"
        for title, t in timed(certificates)
    ]
    return MARKDOWN + "\n".join(lines) + "\n" if lines else ""


SECTION = Section(125, "Throughput", _html, _markdown)
