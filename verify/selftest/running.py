"""Running a selftest: the members by ground, each ground in a process of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from threadpoolctl import threadpool_limits

from verify.calling import Bench
from verify.formats import format_named
from verify.selftest.expected import Expected, table
from verify.selftest.gate import failures
from verify.selftest.hunt import Ground, Outcome, hunt
from verify.selftest.plan import FORMATS, Member, chosen, members
from verify.truth import Oracle
from verify.worker import Worker

SECONDS = 20.0  # of one call; a cheat that hangs is given less
SECONDS_FOR_CHEATS = 3.0
MEMORY = 24 * 2**30
Progress = Callable[[Outcome], None]


@dataclass(frozen=True)
class Request:
    """What to run: formats, kernels by the beginnings of their names (None: all), a seed.

    full    all families instead of those of the table and two more
    jobs    processes (0: one per core, at most 2)
    """

    formats: tuple[str, ...] = FORMATS
    kernels: tuple[str, ...] | None = None
    full: bool = False
    seed: int = 0
    jobs: int = 0


@dataclass(frozen=True)
class Result:
    """All outcomes, and what is wrong with them."""

    outcomes: tuple[Outcome, ...]
    failures: tuple[str, ...]
    seconds: float
    full: bool
    whole: bool  # all kernels in all formats, so that it can back certificates

    def of(self, kind: str) -> list[Outcome]:
        """The outcomes of 'control', 'right' or 'cheat' kernels."""
        return [o for o in self.outcomes if o.kernel.startswith(f"{kind}-")]


def run(
    request: Request, progress: Progress | None = None, expected: Expected | None = None
) -> Result:
    """Run a selftest; several processes where the machine has several cores."""
    started = time.monotonic()
    expected = expected or table()
    with Worker() as worker:
        everything = members(worker.list_kernels(), expected)
    groups = _groups(everything, request)
    jobs = request.jobs or min(len(os.sched_getaffinity(0)), 2)
    outcomes: list[Outcome] = []
    tasks = [(group, request, expected) for group in groups]
    for found in _in_parallel(tasks, jobs) if jobs > 1 else map(_run_group, tasks):
        for outcome in found:
            outcomes.append(outcome)
            if progress:
                progress(outcome)
    outcomes.sort(key=lambda o: (o.kernel, FORMATS.index(o.format)))
    wrong = tuple(w for o in outcomes for w in failures(o, expected))
    whole = request.kernels is None and set(FORMATS) <= set(request.formats)
    return Result(tuple(outcomes), wrong, time.monotonic() - started, request.full, whole)


def _groups(everything: Sequence[Member], request: Request) -> list[list[Member]]:
    """Members that share a ground, the largest groups first."""
    groups: dict[Any, list[Member]] = {}
    for m in everything:
        named = request.kernels is None or m.kernel.startswith(request.kernels)
        if m.format in request.formats and named:
            groups.setdefault((m.operation, m.format, m.kind), []).append(m)
    return sorted(groups.values(), key=len, reverse=True)


Task = tuple[list[Member], Request, Expected]


def _in_parallel(tasks: list[Task], jobs: int) -> Iterator[list[Outcome]]:
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_run_whole_group, task) for task in tasks]):
            yield done.result()


def _run_whole_group(task: Task) -> list[Outcome]:
    return list(_run_group(task))


def _run_group(task: Task) -> Iterator[Outcome]:
    """Members of one operation, format and kind: they share truths, bounds and a worker."""
    group, request, expected = task
    first = group[0]
    seconds = SECONDS_FOR_CHEATS if first.kind == "cheat" else SECONDS
    # One thread each: the processes already use every core, and barriers of small products would
    # wait for one another.
    with (
        threadpool_limits(limits=1, user_api="blas"),
        Worker(seconds=seconds, memory_bytes=MEMORY, threads=1) as worker,
    ):
        fmt = format_named(first.format)
        bench = Bench(Oracle(audit=0), worker, grading=False)
        ground = Ground(first.operation, fmt, bench, request.seed)  # type: ignore[arg-type]
        for member in group:
            yield _hunted(member, ground, worker, request, expected)


def _hunted(
    member: Member, ground: Ground, worker: Worker, request: Request, expected: Expected
) -> Outcome:
    if member.kind == "right":
        ground.bench.bounds.clear()  # those of another model
    names = chosen(member, ground, expected, full=request.full and member.kind != "cheat")
    outcome = hunt(member.kernel, ground, worker, names, patient=member.kind != "cheat")
    if expected.cheats.get(member.kernel, {}).get("after") == "restart":
        worker.restart()
    return outcome
