"""Timings beside certificates: what pytest-benchmark's JSON tells of kernels that were certified.

A file of timings ends with `.bench.json`; `attncert bench` writes one.  A benchmark belongs to a
certificate by what it says of itself in `extra_info`:

    {"attncert": {"kernel": ..., "format": ..., "device": ..., "timing": {...}}}   written by bench
    {"kernel": ..., "dtype": ..., "device": ...}     as a user's own test may say (device: "cpu")
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from verify.certificate import Certificate
from verify.errors import CertificateError, UsageError
from verify.formats import format_named

SUFFIX = ".bench.json"
EXTRA = "attncert"


@dataclass(frozen=True)
class Timed:
    """One benchmark of one kernel; `timing` as `verify.bench.timing.Timing.to_json` gives it, or
    the few figures that pytest-benchmark has of a user's own benchmark."""

    kernel: str
    format: str
    device: str
    timing: Mapping[str, Any]

    @property
    def key(self) -> tuple[str, str, str]:
        return self.kernel, self.format, self.device


def key(certificate: Certificate) -> tuple[str, str, str]:
    """What a timing and a certificate have in common."""
    return str(certificate.kernel["name"]), certificate.format, certificate.device


def files(sources: Iterable[Path]) -> list[Path]:
    """The files of timings among files and folders."""
    found: list[Path] = []
    for source in sources:
        if source.is_dir():
            found += sorted(p for p in source.glob(f"*{SUFFIX}") if p.name[0] != ".")
        elif source.name.endswith(SUFFIX):
            found.append(source)
    return found


def read(path: Path) -> list[Timed]:
    """The timings of a file that belong to kernels.

    Raises      CertificateError for a file that is none of pytest-benchmark's.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        benchmarks = data["benchmarks"]
        found = [timed(b["name"], b["extra_info"], b["stats"]) for b in benchmarks]
    except OSError as error:
        raise CertificateError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CertificateError(f"{path} is no JSON of pytest-benchmark: {error!r}") from None
    return [t for t in found if t is not None]


def timed(name: str, extra: Mapping[str, Any], stats: Mapping[str, Any]) -> Timed | None:
    """A benchmark as a timing, or None where it does not say which kernel it is of."""
    facts = extra.get(EXTRA)
    if facts:
        return Timed(facts["kernel"], facts["format"], facts["device"], facts["timing"])
    if not isinstance(extra.get("kernel"), str) or not isinstance(extra.get("dtype"), str):
        return None
    try:
        fmt = format_named(extra["dtype"]).name
    except UsageError:
        return None
    return Timed(extra["kernel"], fmt, str(extra.get("device", "cpu")), own(name, stats))


def own(name: str, stats: Mapping[str, Any]) -> dict[str, Any]:
    """A timing of a user's own benchmark: pytest-benchmark's figures, and nothing was judged."""
    median = float(stats["median"])
    return {
        "label": name,
        "shape": [],
        "rounds": int(stats["rounds"]),
        "seconds_median": median,
        "seconds_least": float(stats["min"]),
        "spread": float(stats["iqr"]) / median if median else 0.0,
        "verdict": "not judged",
    }


def attached(
    certificates: Sequence[Certificate], timings: Sequence[Timed]
) -> tuple[list[Certificate], list[Timed]]:
    """Certificates with the timings of their kernel, format and device (after those that they have
    already, a newer one of a label in place of an older), and the timings that belong to none.

    A timing is of a call: where a kernel has certificates of both directions, of the forward one.
    """
    by_key: dict[tuple[str, str, str], dict[str, Mapping[str, Any]]] = {}
    for t in timings:
        by_key.setdefault(t.key, {})[label(t.timing)] = t.timing
    forward = {key(c) for c in certificates if c.direction == "forward"}
    found = []
    for certificate in certificates:
        called = certificate.direction == "forward" or key(certificate) not in forward
        more = by_key.get(key(certificate), {}) if called else {}
        mine = {label(t): t for t in certificate.throughput} | more
        found.append(replace(certificate, throughput=tuple(mine.values())))
    known = {key(c) for c in certificates}
    return found, [t for t in timings if t.key not in known]


def label(timing: Mapping[str, Any]) -> str:
    """The name of a timing's shape."""
    return str(timing.get("label") or "x".join(map(str, timing["shape"])))
