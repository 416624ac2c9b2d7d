"""Publish: the main job. Certify every shipped kernel in every format on every device here, and
write the report; what cannot run is listed with its reason."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from verify.bench import require_pytest_benchmark
from verify.calling import Bench
from verify.campaign import Campaign, certify, file_stem, prepare_folder
from verify.case import Profile
from verify.certificate import Certificate, Skipped, write, write_atomically
from verify.certifying import Listener, Request, Silence, certify_all
from verify.errors import UsageError
from verify.formats import format_named
from verify.judge import Verdict
from verify.kernel import Kernel
from verify.operation import OPERATIONS, TIMED
from verify.report import write_report
from verify.report.section import Section
from verify.terminal import line
from verify.timings import SUFFIX, Timed, attached
from verify.timings import read as read_timings
from verify.truth import Oracle
from verify.worker import Worker

# A prefill and a matrix of rows, at which every kernel is timed.
TIMED_SHAPES = {
    "cpu": "prefill:1x4x512x64,rows:256x4096",
    "cuda": "prefill:1x16x4096x64,rows:4096x4096",
}
TIMED_SECONDS = 180.0
# Forward kernels of which the gradients, by torch.autograd, are published as well.
DIFFERENTIATED = ("torch-sdpa-math", "torch-sdpa-flash", "torch-softmax", "torch-log-softmax")
NOT_PUBLISHED = ("control-", "right-", "cheat-", "honest-")


def publish(
    folder: Path,
    listener: Listener,
    *,
    profile: Profile = "standard",
    kernels: Sequence[str] | None = None,
    library: str | None = None,
    formats: Sequence[str] | None = None,
    only: Sequence[str] | None = None,
    processes: int = 0,
    more: Mapping[str, Section] | None = None,
    timed: bool = False,
    resume: bool = False,
    seconds: float = 60.0,
) -> tuple[list[Certificate], list[Path]]:
    """Certificates of the shipped kernels (or of those named), and the files of the report.

    library     the adapters of this library instead of the kernels of this project's main report
    formats     only these formats; only: only these families (a certificate lists what it left out)
    processes   formats are certified side by side in as many processes (0: one for each core); they
                share neither truths nor bounds, so nothing is computed twice.
    more        further sections of the report
    timed       time the kernels as well, after everything else, for at most TIMED_SECONDS a device
    resume      continue the journals that an interrupted run of the same command left in `folder`
    seconds     what one call of a kernel may take; a kernel that is compiled anew needs more
    """
    prepare_folder(folder)
    if timed:
        require_pytest_benchmark()
    with Worker() as worker:
        described = worker.list_kernels()
    wanted = [k for k in described if _published(k, kernels, library)]
    if not wanted:
        raise UsageError(
            f"no shipped kernel is one of {', '.join(kernels or [library or ''])}; "
            "see `attncert list kernels`"
        )
    certificates = [_unavailable(k, folder) for k in wanted if k["unavailable"]]
    ready = [k for k in wanted if not k["unavailable"]]
    requests = [
        replace(r, only=tuple(only) if only else None, resume=resume, seconds=seconds)
        for r in _requests(ready, folder, profile)
        if not formats or r.formats in formats
    ]
    certificates += _run(requests, listener, processes or os.cpu_count() or 1)
    if timed:
        certificates = attached(certificates, _timings(ready, folder))[0]
        for certificate in certificates:
            write(certificate, folder / f"{_stem(certificate)}.json")
    return certificates, write_report(certificates, folder, more)


def _timings(ready: list[dict[str, Any]], folder: Path) -> list[Timed]:
    """Time these kernels, each device in a run of its own; those that `bench` has shapes for."""
    from verify.bench.running import bench
    from verify.bench.session import Ask

    found = []
    for device in _devices(ready):
        mine = [k for k in ready if device in k["devices"] and k["operation"] in TIMED]
        request = Request(tuple(k["name"] for k in mine), device=device)
        ask = Ask(request, TIMED_SHAPES[device], seconds=1.0, budget=TIMED_SECONDS)
        file = folder / f"{device}{SUFFIX}"
        if mine:
            bench(ask, file)
            found += read_timings(file)
    return found


def _devices(ready: list[dict[str, Any]]) -> list[str]:
    return ["cpu"] + (["cuda"] if ready and ready[0]["environment"]["cuda"] else [])


def _stem(c: Certificate) -> str:
    return file_stem(c.kernel["name"], c.format, c.device, str(c.kernel["operation"]))


def _requests(ready: list[dict[str, Any]], folder: Path, profile: Profile) -> list[Request]:
    """One request for each device, operation and format, with the kernels that claim them.

    Attention comes first: it takes longest, and what is left then fills the other processes.
    """
    found = []
    for device in _devices(ready):
        for operation, fmt in product(reversed(OPERATIONS), ("bf16", "fp16", "fp32")):
            names = tuple(
                k["name"]
                for k in ready
                if device in k["devices"] and fmt in k["formats"] and k["operation"] == operation
            )
            request = Request(names, formats=fmt, device=device, profile=profile, folder=folder)
            turned = tuple(name for name in names if name in DIFFERENTIATED)
            found += [replace(request, kernels=turned, direction="backward")] if turned else []
            found += [request] if names else []
    return found


def _run(requests: list[Request], listener: Listener, processes: int) -> list[Certificate]:
    """Certify in several processes; each certificate is announced when its format is done."""
    if processes == 1 or len(requests) == 1:
        return [c for request in requests for c in certify_all(request, listener)]
    certificates = []
    context = multiprocessing.get_context("spawn")
    count = min(processes, len(requests))
    # Kernels in several processes with a thread for each core would wait at one another's barriers.
    threads = max(1, (os.cpu_count() or 1) // count)
    requests = [replace(r, threads=threads) for r in requests]
    with ProcessPoolExecutor(count, mp_context=context, initializer=_die_with_parent) as pool:
        for done in as_completed([pool.submit(certify_all, r, Announcer()) for r in requests]):
            certificates += done.result()
    return certificates


def _die_with_parent() -> None:
    """On Linux, end this process when the one that started it is killed."""
    if sys.platform == "linux":
        import ctypes

        set_death_signal = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGTERM)


class Announcer(Silence):
    """Prints one line for each certificate, from whichever process made it."""

    def finished(self, certificate: Certificate) -> None:
        expected = certificate.expected == "fail" and certificate.verdict is Verdict.FAIL
        print(line(certificate) + "; as it must be" * expected, flush=True)


def _published(
    description: dict[str, Any], kernels: Sequence[str] | None, library: str | None
) -> bool:
    """Whether a kernel is asked for; adapters of other libraries only by name or by library."""
    if kernels is not None and description["name"] not in kernels:
        return False
    if library is not None:
        return library in description["libraries"][:1]
    if kernels is not None:
        return True
    return not description["libraries"] and not description["name"].startswith(NOT_PUBLISHED)


def _unavailable(description: dict[str, Any], folder: Path) -> Certificate:
    """The certificate of a kernel that cannot run here: nothing was run, and why."""
    kernel = Kernel.from_description(description, {})
    campaign = Campaign(kernel, format_named(kernel.formats[0]))
    skipped = (Skipped("all cases", "all families", f"not available: {kernel.unavailable}"),)
    bench = Bench(Oracle(), Worker())
    certificate = certify(campaign, (), skipped, 1, bench, 0.0)
    stem = campaign.stem
    write(certificate, folder / f"{stem}.json")
    return certificate


PAGES = ("report.md", "report.html", "summary.json")
LARGEST_PAGE = 1_500_000  # bytes; a page beyond that stays beside the certificates


def copied(files: Sequence[Path], pages: Path) -> list[Path]:
    """Copy the report's pages to a folder that holds no certificates; returns what was written."""
    prepare_folder(pages)
    chosen = [f for f in files if f.name in PAGES and f.stat().st_size <= LARGEST_PAGE]
    for file in chosen:
        write_atomically(pages / file.name, file.read_text(encoding="utf-8"))
    return [pages / file.name for file in chosen]
