"""The report of a pytest run: what it certified, and what pytest-benchmark timed in it.

A benchmark of the run belongs to a certificate by what its `extra_info` says (`verify.timings`), or
because one certificate was made in the same test: `def test_mine(certify, benchmark)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verify.campaign import file_stem, prepare_folder
from verify.certificate import Certificate, write
from verify.report import write_report
from verify.timings import Timed, attached, key, own, timed

FIGURES = ("median", "min", "iqr", "rounds")


@dataclass(frozen=True)
class Benchmarked:
    """What pytest-benchmark timed in a run.

    timings    of kernels
    unknown    names of benchmarks that say of no kernel that they are of it
    """

    timings: tuple[Timed, ...]
    unknown: tuple[str, ...]


def write_session_report(
    benchmarks: Benchmarked, certificates: Sequence[Certificate], folder: Path
) -> list[str]:
    """Write certificates and the error-bound and throughput report of this run to a folder.

    Returns     what was timed and is not in the report, by name.
    Special     a run that certified nothing writes nothing.
    """
    if not certificates:
        return [*benchmarks.unknown, *(" ".join(t.key) for t in benchmarks.timings)]
    prepare_folder(folder)
    complete, homeless = attached(certificates, benchmarks.timings)
    for c in complete:
        stem = file_stem(c.kernel["name"], c.format, c.device, c.kernel["operation"])
        write(c, folder / f"{stem}.json")
    write_report(complete, folder)
    return [*benchmarks.unknown, *sorted({" ".join(t.key) for t in homeless})]


def benchmarked(config: Any, made_in: dict[str, list[Certificate]]) -> Benchmarked:
    """The benchmarks of this run. made_in: the certificates of each test, by its node id."""
    timings, unknown = [], []
    session = getattr(config, "_benchmarksession", None)
    for item in getattr(session, "benchmarks", ()):
        if item.has_error or not item:
            continue
        stats = {name: item[name] for name in FIGURES}
        certificates = made_in.get(item.fullname, ())
        found = timed(item.name, item.extra_info, stats)
        if found is None and len(certificates) == 1:
            found = Timed(*key(certificates[0]), own(item.name, stats))
        if found is None:
            unknown.append(str(item.name))
        else:
            timings.append(found)
    return Benchmarked(tuple(timings), tuple(unknown))
