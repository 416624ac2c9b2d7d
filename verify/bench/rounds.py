"""Rounds: a kernel and its reference, called in pairs on the same fresh inputs."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field, replace
from typing import Any

from verify.bench.inputs import FreshInputs
from verify.bench.shape import Shape
from verify.calling import Bench, run
from verify.case import Inputs
from verify.errors import KernelError
from verify.formats import Format
from verify.kernel import Kernel
from verify.operation import Operation
from verify.worker import Answer, Worker

WARM_UP = 2
SLOW = 1.0  # seconds of a pair above which one call is enough to warm up
CHECKED = 2
REPEATS = 7
REPEATED_BELOW = 0.1  # seconds of a call; longer ones are not repeated, which would take too long


@dataclass(frozen=True)
class Runner:
    """A kernel with the worker in which it lives."""

    kernel: Kernel
    worker: Worker


@dataclass
class Times:
    """Seconds of the timed rounds of one kernel, by each clock."""

    inside: list[float] = field(default_factory=list)
    outside: list[float] = field(default_factory=list)
    device: list[float] = field(default_factory=list)

    def add(self, answer: Answer, outside: float) -> None:
        self.inside.append(answer.seconds)
        self.outside.append(outside)
        if answer.device_seconds is not None:
            self.device.append(answer.device_seconds)


class Rounds:
    """The rounds of one kernel in one format at one shape.

    A round is: fresh inputs, then kernel and reference, the one first in even rounds, the other in
    odd ones.  The first WARM_UP rounds are not timed, and measure memory.  Of the
    timed rounds CHECKED outputs are kept, each equally likely, chosen after the output is there.
    """

    def __init__(
        self,
        subject: Runner,
        reference: Runner | None,
        fmt: Format,
        shape: Shape,
        bench: Bench,
        seed: int,
    ) -> None:
        self.subject, self.reference = subject, reference
        self.format, self.shape, self.bench = fmt, shape, bench
        self.times, self.reference_times = Times(), Times()
        self.kept: list[tuple[int, Answer]] = []
        self.repeats: list[tuple[float, float]] = []
        self.peak_bytes: int | None = None
        self.no_reference = "" if reference else "none was asked for"
        self._fresh = FreshInputs(shape, fmt, seed)
        self._number = 0
        self._inputs: Inputs | None = None

    def inputs(self, number: int) -> Inputs:
        return self._fresh.round(number)

    def warm_up(self) -> float:
        """Call both without timing them; the seconds that a pair takes.

        Raises      KernelError where the kernel fails; a reference that fails is left out, and
                    `no_reference` says why.
        """
        for _ in range(WARM_UP):
            started = time.perf_counter()
            self.prepare()
            self._warm_reference()
            answer, _outside = self._call(self.subject, peak=True)
            self.peak_bytes = answer.peak_bytes
            seconds = time.perf_counter() - started
            if seconds > SLOW:
                break
        return seconds

    def _warm_reference(self) -> None:
        if self.reference is None:
            return
        try:
            self._call(self.reference)
        except KernelError as error:
            self.no_reference = f"{self.reference.kernel.name}: {error}"
            self.reference = None

    def prepare(self) -> None:
        """Make the inputs of the next round."""
        self._inputs = self.inputs(self._number)
        self._number += 1

    def before(self) -> None:
        """Start a timed round; the reference goes first in odd ones."""
        self.prepare()
        if self._number % 2:
            self._time_reference()

    def call(self) -> float:
        """The kernel's timed call; returns its seconds by the worker's clock."""
        answer, outside = self._call(self.subject)
        self.times.add(answer, outside)
        self._keep(answer)
        return answer.seconds

    def after(self) -> None:
        """End a timed round; the reference goes last in even ones."""
        if self._number % 2 == 0:
            self._time_reference()

    def repeat(self) -> None:
        """After the timed rounds: REPEATS pairs of a call on fresh inputs and one on them again.

        Both follow another call at the same distance and after the same work of ours, so that
        caches and threads are equally warm.  A kernel that computes takes as long for both.
        """
        for _ in range(REPEATS):
            self.prepare()
            fresh, _ = self._call(self.subject)
            self.inputs(self._number)  # the work of preparing, for nothing
            again, _ = self._call(self.subject)
            self.repeats.append((fresh.seconds, again.seconds))

    def _time_reference(self) -> None:
        if self.reference is not None:
            self.reference_times.add(*self._call(self.reference))

    def _keep(self, answer: Answer) -> None:
        """Reservoir sampling: after r rounds each of them is kept with probability CHECKED / r."""
        item = (self._number - 1, answer)
        if len(self.kept) < CHECKED:
            self.kept.append(item)
            return
        place = secrets.randbelow(len(self.times.inside))
        if place < CHECKED:
            self.kept[place] = item

    def _call(self, who: Runner, peak: bool = False) -> tuple[Answer, float]:
        """One call, and the seconds of the whole conversation by our clock."""
        assert self._inputs is not None
        d = self.shape.axes.d if self.shape.axes else None
        operation = who.kernel.resolve(Operation(who.kernel.operation), d)
        clocked = Clocked(who.worker, peak)
        answer = run(who.kernel, operation, self._inputs, replace(self.bench, runner=clocked))
        return answer, clocked.seconds


class Clocked:
    """A worker with our clock around its conversation."""

    def __init__(self, worker: Worker, peak: bool) -> None:
        self._worker, self._peak = worker, peak
        self.seconds = 0.0

    def run(
        self, kernel: str, inputs: Inputs, options: dict[str, Any], shapes: Any, **where: Any
    ) -> Answer:
        started = time.perf_counter()
        answer = self._worker.run(kernel, inputs, options, shapes, peak=self._peak, **where)
        self.seconds = time.perf_counter() - started
        return answer
