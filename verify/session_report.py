"""The report of a pytest run: what it certified, and what pytest-benchmark timed in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from verify.campaign import file_stem, prepare_folder
from verify.certificate import Certificate, write
from verify.report import write_report


def write_session_report(config: Any, certificates: list[Certificate], folder: Path) -> list[Path]:
    """Write certificates and the error-bound and throughput report of this run to a folder.

    Special     a run that certified nothing writes nothing, and returns no path.
    """
    if not certificates:
        return []
    prepare_folder(folder)
    timed = benchmarked(config)
    complete = [replace(c, throughput=tuple(timed.get(key(c), ()))) for c in certificates]
    for c in complete:
        stem = file_stem(c.kernel["name"], c.format, c.device, c.kernel["operation"])
        write(c, folder / f"{stem}.json")
    return write_report(complete, folder)


def key(certificate: Certificate) -> tuple[str, str, str]:
    return certificate.kernel["name"], certificate.format, certificate.device


def benchmarked(config: Any) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """Timings that benchmarks of this run left in their `extra_info` under 'attncert'."""
    session = getattr(config, "_benchmarksession", None)
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for item in getattr(session, "benchmarks", ()):
        facts = item.extra_info.get("attncert")
        if facts:
            found.setdefault((facts["kernel"], facts["format"], facts["device"]), []).append(
                facts["timing"]
            )
    return found
