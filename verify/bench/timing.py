"""Timing: everything that is known of one kernel's speed at one shape, as plain data."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from verify.certificate import plain

# Spread (interquartile range over median) and busy cores of others, up to which a time is trusted.
SPREAD = {"good": 0.05, "fair": 0.2}
BUSY = {"good": 0.25, "fair": 0.6}


@dataclass(frozen=True)
class Timing:
    """Times of one kernel at one shape.

    label, shape      the shape, and (batch, heads, n_q, n_k, d) or (rows, n)
    seconds_median, seconds_least, spread   of one call; spread: interquartile range over median
    overhead          median time of the conversation around the call, by the parent's clock; not
                      part of the seconds
    device_seconds    median by CUDA events; None on a CPU
    flops, bytes      work of the products, traffic of inputs and output counted once
    tokens            queries, or rows
    roofline_share    time of the measured roofline over the median
    peak_bytes        memory that a call needs beyond its inputs; None where it is not measured
    against, ratio    the reference, and the median of (its time / this kernel's) pair by pair:
                      above 1 this kernel is faster; ratio_spread as above
    verdict           of the sampled rows of the checked rounds; checked: what was looked at
    problems          why the times cannot be true: an integrity failure
    trust, doubts     'good', 'fair' or 'poor', and why it is not good
    machine           peak and copy rate used, threads, busy cores of others before the first round
    """

    label: str
    shape: tuple[int, ...]
    rounds: int
    seconds_median: float
    seconds_least: float
    spread: float
    overhead: float
    flops: float
    bytes: float
    tokens: float
    roofline_share: float
    verdict: str
    device_seconds: float | None = None
    peak_bytes: int | None = None
    against: str | None = None
    ratio: float | None = None
    ratio_spread: float | None = None
    checked: tuple[Mapping[str, Any], ...] = ()
    problems: tuple[str, ...] = ()
    trust: str = "good"
    doubts: tuple[str, ...] = ()
    machine: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        rates = {
            "flops_per_second": self.flops / self.seconds_median,
            "bytes_per_second": self.bytes / self.seconds_median,
            "tokens_per_second": self.tokens / self.seconds_median,
        }
        return dict(plain({**asdict(self), **rates}))


def spread(values: Sequence[float]) -> float:
    """Interquartile range over median; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return (third - first) / statistics.median(values)


def trust(
    scatter: float, busy: float | None, alone: bool, rounds: int, share: float
) -> tuple[str, list[str]]:
    """How much a time is to be trusted, and why it is not 'good'.

    scatter, busy    spread of the rounds, and cores that others kept busy (None: not known)
    alone            whether no other bench ran
    share            of the roofline; a kernel cannot be above it unless it was measured too low
    """
    doubts = []
    level = _level(scatter, SPREAD)
    if level != "good":
        doubts.append(f"the rounds scatter by {scatter:.0%}")
    if busy is None:
        level, told = _worse(level, "fair"), "the load of this machine cannot be read"
        doubts.append(told)
    elif _level(busy, BUSY) != "good":
        level = _worse(level, _level(busy, BUSY))
        doubts.append(f"other processes kept {busy:.1f} cores busy")
    if share > 1:
        level = _worse(level, "fair")
        doubts.append(f"{share:.0%} of the roofline: the measurement of that was disturbed")
    if not alone:
        level = "poor"
        doubts.append("another bench ran beside it")
    if rounds < 5:
        level = _worse(level, "fair")
        doubts.append(f"{rounds} rounds only")
    return level, doubts


def _level(value: float, limits: Mapping[str, float]) -> str:
    return next((name for name, limit in limits.items() if value <= limit), "poor")


def _worse(a: str, b: str) -> str:
    order = ("poor", "fair", "good")
    return min(a, b, key=order.index)
