"""Certify: from what a user asks for to certificates, kernel by kernel and format by format."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from threadpoolctl import threadpool_limits

from verify import families, properties
from verify.calling import Bench
from verify.campaign import Campaign, command_line, execute, prepare_folder
from verify.case import Profile
from verify.certificate import Certificate, Record, commitment
from verify.declared_file import DeclaredKernel
from verify.errors import UnusableError, UsageError
from verify.formats import Format
from verify.in_process import InProcess
from verify.kernel import Kernel, formats_named
from verify.sources import Guard
from verify.truth import Oracle
from verify.waivers import Waiver
from verify.worker import Worker, load_or_explain

DirectionWanted = Literal["forward", "backward", "both"]


@dataclass(frozen=True)
class Request:
    """What to certify, as the command line, the plugin and the conformance suite ask for it.

    direction    'backward': the gradients of a forward kernel by autograd; 'both'; None: the
                 direction that the kernel itself has
    function     a kernel that no other process can import (a closure): it runs in this process
    in_process   run any kernel in this process, for debugging
    threads      OpenMP and BLAS threads of the kernel's process (0: as the environment says)
    waivers      what is waived, for every kernel of the request
    blind        draw a fresh seed after a kernel is loaded, and commit to it before it runs
    """

    kernels: tuple[str, ...]
    formats: str = "all"
    device: str = "cpu"
    profile: Profile = "standard"
    operation: str | None = None
    direction: DirectionWanted | None = None
    declared: Mapping[str, Any] = field(default_factory=dict)
    only: tuple[str, ...] | None = None
    seed: int = 0
    folder: Path | None = None
    resume: bool = False
    seconds: float = 60.0
    memory_bytes: int = 0
    threads: int = 0
    in_process: bool = False
    blind: bool = False
    function: Callable[..., Any] | None = None
    waivers: tuple[Waiver, ...] = ()


class Listener(Protocol):
    """Whoever watches: a terminal, or nobody."""

    def starting(self, campaign: Campaign) -> None: ...

    def progress(self, done: int, total: int, record: Record) -> None: ...

    def finished(self, certificate: Certificate) -> None: ...


class Silence:
    """Nobody watches."""

    def starting(self, campaign: Campaign) -> None: ...

    def progress(self, done: int, total: int, record: Record) -> None: ...

    def finished(self, certificate: Certificate) -> None: ...


def declared(request: Request, entry: DeclaredKernel) -> Request:
    """The request for a kernel of a file; what the request itself says comes first."""
    return replace(
        request,
        kernels=(entry.kernel,),
        formats=request.formats if request.formats != "all" else ",".join(entry.formats) or "all",
        operation=request.operation or entry.operation,
        declared={**entry.declared, **request.declared},
        waivers=entry.waivers,
    )


def certify_all(request: Request, listener: Listener | None = None) -> list[Certificate]:
    """Run every campaign of a request.

    Raises      UsageError for names that do not exist, UnusableError for what cannot run here.
    """
    listener = listener or Silence()
    if request.blind and (request.resume or request.seed):
        raise UsageError(
            "--blind-seed draws a fresh seed: it goes with neither --seed nor --resume"
        )
    for name in request.only or ():
        families.family(name)
    # One BLAS thread: the products are small, and idle threads that spin cost more than they give.
    with threadpool_limits(limits=1, user_api="blas"):
        return _certify(request, listener)


def _certify(request: Request, listener: Listener) -> list[Certificate]:
    folder = prepare_folder(request.folder) if request.folder else None
    certificates = []
    oracle = Oracle()
    guard = _prepared()
    with worker_for(request) as worker:
        bench = Bench(oracle, worker, request.device)
        for name, turned in _turned(request):
            kernel = loaded(worker, name, turned)
            bench = replace(bench, bounds={})
            seeded = replace(request, seed=secrets.randbits(128)) if request.blind else request
            for fmt in formats_named(request.formats, kernel):
                campaign = campaign_of(kernel, fmt, seeded)
                listener.starting(campaign)
                certificate = execute(campaign, bench, folder, listener.progress, guard)
                listener.finished(certificate)
                certificates.append(certificate)
    return certificates


def _prepared() -> Guard:
    """Import what is imported by name, and remember our files, before any kernel can write."""
    for name in families.names():
        families.family(name)
    for name in properties.names():
        properties.property_named(name)
    return Guard()


def _turned(request: Request) -> list[tuple[str, Request]]:
    """Each kernel with the request for one of its directions."""
    if request.direction != "both":
        return [(name, request) for name in request.kernels]
    one, other = replace(request, direction="forward"), replace(request, direction="backward")
    return [(name, turned) for name in request.kernels for turned in (one, other)]


def worker_for(request: Request) -> Worker:
    """The worker that a request asks for."""
    if request.function is not None:
        return InProcess(dict.fromkeys(request.kernels, request.function))
    if request.in_process:
        return InProcess()
    limit = 0 if request.device != "cpu" else request.memory_bytes
    return Worker(seconds=request.seconds, memory_bytes=limit, threads=request.threads)


def loaded(worker: Worker, name: str, request: Request) -> Kernel:
    """Load a kernel and check that it can run on the device."""
    description = load_or_explain(worker, name, request.operation, request.direction)
    kernel = Kernel.from_description(description, request.declared)
    if kernel.unavailable:
        raise UnusableError(f"kernel {name!r} cannot run here: {kernel.unavailable}")
    if request.device not in kernel.devices:
        raise UsageError(
            f"kernel {name!r} does not claim device {request.device!r}; "
            f"it claims {', '.join(kernel.devices)}"
        )
    if request.device == "cuda" and not kernel.environment.get("cuda"):
        raise UnusableError("no CUDA device is visible to torch here")
    if request.device not in ("cpu", "cuda"):
        raise UsageError(f"unknown device {request.device!r}; use cpu or cuda")
    return kernel


def campaign_of(
    kernel: Kernel, fmt: Format, request: Request, only: tuple[str, ...] | None = None
) -> Campaign:
    """The campaign of one format (`only` narrows the request's families)."""
    kernel.models(fmt)  # an unknown model is a usage error before anything runs
    return Campaign(
        kernel=kernel,
        format=fmt,
        device=request.device,
        profile=request.profile,
        seed=request.seed,
        only=only or request.only,
        command=command_line(),
        warnings=_warnings(kernel, request),
        resume=request.resume,
        waivers=request.waivers,
        commitment=commitment(request.seed) if request.blind else None,
        way="in-process" if request.in_process or request.function else kernel.way,
    )


def _warnings(kernel: Kernel, request: Request) -> tuple[str, ...]:
    notes = []
    if request.profile == "smoke":
        notes.append("profile smoke: a quick look, not sufficient for a certificate of accuracy")
    if request.only:
        notes.append(f"only the families {', '.join(request.only)} were run")
    if kernel.environment.get("subnormals") == "flushed":
        notes.append("the worker flushes subnormal numbers to zero")
    return tuple(notes)
