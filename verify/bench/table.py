"""Table: the timings of a run as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from verify.bench.session import Session
from verify.bench.timing import Timing

_HEAD = ("kernel and format", "shape", "median", "tokens/s", "GFLOP/s", "GB/s", "roofline",
         "memory", "torch/this", "output", "trust")  # fmt: skip


def lines(session: Session) -> Iterator[str]:
    """The table, then the machine, doubts, and what was skipped and why."""
    rows = [_HEAD] + [
        (f"{item.kernel} {item.format.name}", *_cells(timing)) for item, timing in session.timings
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
    yield ""
    for row in rows:
        first = f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}"
        yield first + "".join(f"  {c:>{w}}" for c, w in zip(row[2:], widths[2:], strict=True))
    yield ""
    if session.timings:
        yield from _machine(session)
    for kernel, label, reason in session.skipped:
        yield f"skipped {kernel} {label}: {reason}"


def _machine(session: Session) -> Iterator[str]:
    roofline, (_, timing) = session.roofline, session.timings[0]
    rates = ", ".join(f"{n} {rate / 1e9:.3g} GFLOP/s" for n, rate in roofline.products.items())
    copies = ", ".join(f"{_size(n)} {r / 1e9:.3g} GB/s" for n, r in roofline.copies.items())
    yield f"machine    matrix product {rates}; copy of {copies}; {roofline.threads} threads"
    yield f"reference  {timing.against or 'none'}    seed {session.seed}"
    doubts = sorted({d for _, t in session.timings for d in t.doubts})
    if doubts:
        shown = "; ".join(doubts[:6])
        yield f"trust      {shown}{f'; and {len(doubts) - 6} more' if len(doubts) > 6 else ''}"


def _cells(t: Timing) -> tuple[str, ...]:
    return (
        t.label,
        f"{t.seconds_median * 1e3:.4g} ms",
        f"{t.tokens / t.seconds_median:.3g}",
        f"{t.flops / t.seconds_median / 1e9:.3g}" if t.flops else "-",
        f"{t.bytes / t.seconds_median / 1e9:.3g}",
        f"{t.roofline_share:.1%}",
        "-" if t.peak_bytes is None else _size(t.peak_bytes),
        "-" if t.ratio is None else f"{t.ratio:.3g}",
        "IMPOSSIBLE" if t.problems else t.verdict,
        t.trust,
    )


def _size(count: int) -> str:
    """Bytes with a binary prefix."""
    size, units = float(count), ("B", "KiB", "MiB", "GiB")
    for unit in units:
        if size < 1024 or unit == units[-1]:
            return f"{size:.3g} {unit}"
        size /= 1024
    raise AssertionError
