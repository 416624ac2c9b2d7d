"""Accuracy beside speed: one point for each certificate that was timed, and which are dominated."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from verify.certificate import Certificate
from verify.formats import FORMATS
from verify.judge import Verdict
from verify.report import facts
from verify.timings import label


@dataclass(frozen=True)
class Point:
    """One kernel in one format.

    rate      tokens (or rows) per second at the shape that is compared
    bits      correct bits of a typical case: median over the cases of -log2 of the case's largest
              error, in attention over Σ P|v|, in softmax over the row's total 1
    worst     the same of the worst case; -inf where an output is not finite although the truth is
    """

    title: str
    format: str
    grade: str
    certified: bool
    rate: float
    bits: float
    worst: float
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
    for title, certificate in zip(facts.titles(certificates), certificates, strict=True):
        timing = next((t for t in certificate.throughput if label(t) == shape), None)
        sizes = errors(certificate)
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
                -math.inf if lost else bits(max(sizes)),
                timing.get("ratio"),
                str(timing.get("trust", "not known")),
            )
        )
    return found


def errors(certificate: Certificate) -> list[float]:
    """The largest error of each judged case, as a part of what one output can be at most."""
    u = FORMATS[certificate.format].u
    found = []
    for record in facts.judged(certificate):
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
