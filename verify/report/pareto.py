"""Accuracy beside speed: one point for each certificate that was timed, and which are dominated."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from verify.certificate import Certificate, Record
from verify.formats import FORMATS
from verify.judge import Verdict
from verify.report import facts
from verify.timings import label

LEAST = 5


@dataclass(frozen=True)
class Point:
    """One kernel in one format.

    rate      tokens (or rows) per second at the shape that is compared
    bits      correct bits of a typical case: median over the compared cases of -log2 of the case's
              largest error, in attention over Σ P|v|, in softmax over the row's total 1
    cases     how many cases that are
    tightness largest error over bound of all cases; infinite where a value was lost
    """

    title: str
    format: str
    grade: str
    certified: bool
    rate: float
    bits: float
    cases: int
    tightness: float | None
    ratio: float | None
    trust: str


def compared(certificates: Sequence[Certificate]) -> str | None:
    """The shape at which most of the certificates were timed; of equals the one of most work."""
    counts: Counter[str] = Counter()
    work: dict[str, float] = {}
    for certificate in certificates:
        for timing in certificate.throughput:
            if "tokens_per_second" in timing:
                name = label(timing)
                counts[name] += 1
                work[name] = max(float(timing.get("flops") or 0.0), float(timing.get("bytes", 0)))
    return max(counts, key=lambda name: (counts[name], work[name], name), default=None)


def points(certificates: Sequence[Certificate], shape: str) -> list[Point]:
    """A point for each certificate that was timed at a shape and of which anything was judged."""
    found = []
    timings = [_timing(c, shape) for c in certificates]
    cases = shared([c for c, t in zip(certificates, timings, strict=True) if t is not None])
    titles = facts.titles(certificates)
    for title, certificate, timing in zip(titles, certificates, timings, strict=True):
        sizes = errors(certificate, cases)
        if timing is None or not sizes:
            continue
        lost = facts.lost_values(certificate) > 0
        found.append(
            Point(
                title,
                certificate.format,
                certificate.grade.letter if certificate.grade else "—",
                certificate.verdict is Verdict.PASS and not timing.get("problems"),
                float(timing["tokens_per_second"]),
                bits(median(sizes)),
                len(sizes),
                math.inf if lost else facts.largest_tightness(certificate),
                timing.get("ratio"),
                str(timing.get("trust", "not known")),
            )
        )
    return found


def _timing(certificate: Certificate, shape: str) -> Mapping[str, Any] | None:
    return next((t for t in certificate.throughput if label(t) == shape), None)


def shared(certificates: Sequence[Certificate]) -> set[str] | None:
    """The cases that all certified kernels were judged on, without their formats; None (all of its
    own for each) where they have fewer than LEAST in common.

    Kernels claim different features: a median over other cases would compare the cases.
    """
    sure = [c for c in certificates if c.verdict is Verdict.PASS]
    sets = [{_case(r, c.format) for r in facts.judged(c)} for c in sure]
    common = set.intersection(*sets) if sets else set()
    return common if len(common) >= LEAST else None


def _case(record: Record, fmt: str) -> str:
    return record.case.replace(f"/{fmt}/", "/", 1)


def errors(certificate: Certificate, cases: set[str] | None = None) -> list[float]:
    """The largest error of each judged case (of `cases`), as a part of what one output can be."""
    u = FORMATS[certificate.format].u
    found = []
    for record in facts.judged(certificate):
        if cases is not None and _case(record, certificate.format) not in cases:
            continue
        measures = facts.measures(record)
        if facts.operation(certificate) == "attention":
            size, unit = measures.get("max_scaled"), u
        elif facts.operation(certificate) == "softmax":
            size, unit = measures.get("max_absolute"), 1.0
        else:
            size, unit = measures.get("max_ulp"), 2 * u
        if size is not None and math.isfinite(float(size)):
            found.append(float(size) * unit)
    return found


def bits(error: float) -> float:
    """Correct bits: -log2 of an error, between 0 and 60 (an exact result has no logarithm)."""
    return 60.0 if error <= 2.0**-60 else max(-math.log2(error), 0.0)


def front(found: Sequence[Point]) -> list[Point]:
    """The certified points that no other certified one equals in both and beats in one."""
    sure = [p for p in found if p.certified]
    return sorted((p for p in sure if not any(_beats(q, p) for q in sure)), key=lambda p: p.rate)


def _beats(a: Point, b: Point) -> bool:
    return a.rate >= b.rate and a.bits >= b.bits and (a.rate > b.rate or a.bits > b.bits)
