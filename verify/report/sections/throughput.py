"""Throughput: how long a call took at each shape, where the run timed the kernel."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from verify.certificate import Certificate
from verify.report import facts
from verify.report.section import Section
from verify.report.table import Cell, Column, quantity, table
from verify.report.template import render
from verify.report.words import number
from verify.timings import label

TEMPLATE = """
<p>Seconds of one call on standard-normal inputs, new in every round, by a synchronised clock in the
kernel's process, which the clock of the process that holds the truth must confirm; the
conversation between the two is not part of them. Rows of outputs of rounds chosen at random were
judged like any other output. The roofline is a matrix product and a copy, measured on this machine
in the same run{% if rooflines %}: {{ rooflines | join("; ") }}{% endif %}. The ratio is
the reference's time over the kernel's on the same inputs, taken in turns: above 1 the kernel is
faster.</p>
{% if doubts %}<p class="note"><strong>How far these times are to be trusted:</strong>
{{ doubts | join("; ") }}. Compare rows of one run, not of two; the ratio suffers least.</p>
{% endif %}
{% for problem in problems %}<p class="notice" role="alert">{{ problem }}</p>{% endfor %}
{{ table }}
"""
COLUMNS = (
    Column("Kernel and format"),
    Column("Shape", help="prefill: batch × heads × n × d; decode: one query, n keys; rows × n"),
    Column("Rounds", True),
    Column("Median (ms)", True),
    Column("Least (ms)", True),
    Column("Spread", True, "interquartile range over median"),
    Column("GFLOP/s", True, "of the two matrix products; exponentials are not counted"),
    Column("GB/s", True, "inputs and output, each counted once"),
    Column("Tokens/s", True, "queries, or rows"),
    Column("Of the roofline", True),
    Column("Memory (MiB)", True, "beyond the inputs, at the peak of a call"),
    Column("Ratio to reference", True),
    Column("Output"),
    Column("Trust"),
)
MARKDOWN = (
    "| Kernel | Shape | Median (ms) | GFLOP/s | Tokens/s | Ratio |\n"
    "| --- | --- | --- | --- | --- | --- |\n"
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
        Cell(shape(timing).replace(" ", "\N{NO-BREAK SPACE}")),
        quantity(float(timing["rounds"])),
        quantity(median * 1e3),
        quantity(_scaled(timing, "seconds_least", 1e3)),
        quantity(_scaled(timing, "spread", 1.0)),
        quantity(_scaled(timing, "flops_per_second", 1e-9)),
        quantity(_scaled(timing, "bytes_per_second", 1e-9)),
        quantity(_scaled(timing, "tokens_per_second", 1.0)),
        _percent(timing.get("roofline_share")),
        quantity(_scaled(timing, "peak_bytes", 2.0**-20)),
        quantity(_scaled(timing, "ratio", 1.0)),
        Cell("IMPOSSIBLE" if timing.get("problems") else str(timing.get("verdict", "not judged"))),
        Cell(str(timing.get("trust", "not known"))),
    ]


def shape(timing: Mapping[str, Any]) -> str:
    """The shape as it is shown."""
    return shown(label(timing))


def shown(name: str) -> str:
    """A label such as prefill:1x4x256x64 with spaces; any other name as it is."""
    return re.sub(r"(?<=\d)x(?=\d)", " × ", name).replace(":", " ", 1)


def _scaled(timing: Mapping[str, Any], name: str, factor: float) -> float | None:
    value = timing.get(name)
    return None if value is None else float(value) * factor


def _percent(value: float | None) -> Cell:
    if value is None:
        return quantity(None)
    return Cell(f"{100 * float(value):.3g} %", float(value), "num")


def rooflines(found: Timed) -> list[str]:
    """The peaks that the timings were held against, one text for each."""
    texts = []
    for _, timing in found:
        machine = timing.get("machine") or {}
        if "peak_flops" in machine:
            peak, copy = float(machine["peak_flops"]) / 1e9, float(machine["copy_rate"]) / 1e9
            texts.append(
                f"{number(peak)} GFLOP/s and {number(copy)} GB/s with {machine['threads']} threads"
            )
    return sorted(set(texts))[:6]


def _html(certificates: Sequence[Certificate]) -> str:
    found = timed(certificates)
    if not found:
        return ""
    doubts = sorted({_kind(d) for _, timing in found for d in timing.get("doubts", ())})
    problems = [f"{title} {shape(t)}: {p}" for title, t in found for p in t.get("problems", ())]
    rows = [_row(title, timing) for title, timing in found]
    return render(
        TEMPLATE,
        table=table("Throughput", COLUMNS, rows),
        rooflines=rooflines(found),
        doubts=doubts,
        problems=problems,
    )


def _kind(doubt: str) -> str:
    """A doubt without its figures, so that many of a kind are told once."""
    if doubt.startswith("the rounds scatter"):
        return "the rounds of some scatter by more than a twentieth (column Spread)"
    if doubt.startswith("other processes"):
        return "other processes were busy on this machine"
    return doubt


def _markdown(certificates: Sequence[Certificate]) -> str:
    lines = [
        f"| {title} | {shape(t)} | {t['seconds_median'] * 1e3:.3g} "
        f"| {t.get('flops_per_second', 0.0) / 1e9:.3g} | {t.get('tokens_per_second', 0.0):.3g} "
        f"| {number(t.get('ratio'))} |"
        for title, t in timed(certificates)
    ]
    return MARKDOWN + "\n".join(lines) + "\n" if lines else ""


SECTION = Section(125, "Throughput", _html, _markdown)
