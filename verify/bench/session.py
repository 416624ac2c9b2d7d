"""Session: what the timings of one run share - workers, oracle, seed, roofline, and the lock."""

from __future__ import annotations

import contextlib
import secrets
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from verify.bench import integrity, ladder, quiet, roofline, sampled
from verify.bench.budget import Budget
from verify.bench.budget import rounds as rounds_within
from verify.bench.integrity import Clocks
from verify.bench.rounds import Rounds, Runner
from verify.bench.shape import Shape
from verify.bench.timing import Timing, spread, trust
from verify.calling import Bench
from verify.case import Case, Plan
from verify.certificate import Record
from verify.certifying import Request, loaded, worker_for
from verify.errors import UsageError
from verify.formats import Format
from verify.judge import worst
from verify.kernel import Kernel, formats_named
from verify.operation import TIMED, OperationName
from verify.truth import Oracle
from verify.worker import Worker

REFERENCES = {
    ("attention", "cpu"): "torch-sdpa",
    ("attention", "cuda"): "torch-sdpa-cuda",
    ("softmax", ""): "torch-softmax",
    ("log_softmax", ""): "torch-log-softmax",
    ("logsumexp", ""): "torch-logsumexp",
}


@dataclass(frozen=True)
class Ask:
    """What to time.

    shapes    'quick', 'full' or labels
    against   a kernel, 'auto' for torch's own, or 'none'
    rounds    timed rounds of each shape; 0: as many as fit into `seconds`, within `budget`
    budget    seconds of the whole run; what is predicted to overrun its share of it is left out
    wait      seconds to wait, in all, for a quiet machine and for the lock
    seed      of the inputs; None: drawn after the kernels are loaded
    """

    request: Request
    shapes: str = ladder.FULL
    against: str = "auto"
    rounds: int = 0
    seconds: float = 2.0
    budget: float = 210.0
    wait: float = 60.0
    seed: int | None = None


@dataclass(frozen=True)
class Item:
    """One timing to be made."""

    kernel: str
    format: Format
    shape: Shape

    @property
    def kind(self) -> tuple[str, str, str]:
        """Items whose times grow alike."""
        return self.kernel, self.format.name, self.shape.kind

    @property
    def id(self) -> str:
        return f"{self.kernel}-{self.format.name}-{self.shape.label}"


@dataclass
class Session:
    """One run. Close it: the workers end, and the lock is given back.

    skipped   (kernel, shape, reason) of what a kernel does not claim
    records   the judged rows, for an explanation of what was refuted
    timings   what was timed so far
    statuses  exit statuses of what went wrong so far
    """

    ask: Ask
    worker: Worker
    oracle: Oracle = field(default_factory=Oracle)
    skipped: list[tuple[str, str, str]] = field(default_factory=list)
    records: dict[str, list[Record]] = field(default_factory=dict)
    timings: list[tuple[Item, Timing]] = field(default_factory=list)
    statuses: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._open = contextlib.ExitStack()
        self._waited = 0.0
        self._references: dict[str, Runner] = {}
        self._last: str | None = None
        self.budget = Budget(self.ask.budget)

    @cached_property
    def kernels(self) -> dict[str, Kernel]:
        """The kernels, loaded in one worker."""
        request = self.ask.request
        found = {name: loaded(self.worker, name, request) for name in request.kernels}
        for name, kernel in found.items():
            if kernel.operation not in TIMED:
                raise UsageError(f"{name!r} is {kernel.operation}: {', '.join(TIMED)} are timed")
        return found

    @cached_property
    def seed(self) -> int:
        assert self.kernels
        return secrets.randbits(64) if self.ask.seed is None else self.ask.seed

    @cached_property
    def alone(self) -> bool:
        """Whether no other bench of ours runs; asked for once, and held to the end."""
        return self._open.enter_context(quiet.alone(self.ask.wait))

    @cached_property
    def roofline(self) -> roofline.Roofline:
        """The machine's peak rates."""
        assert self.alone is not None
        return roofline.measure(self.ask.request.device, self._formats())

    def _formats(self) -> list[str]:
        request = self.ask.request
        found = [f.name for k in self.kernels.values() for f in formats_named(request.formats, k)]
        return list(dict.fromkeys(found))

    def plan(self) -> list[Item]:
        """What will be timed; what a kernel does not claim goes to `skipped` with the reason."""
        self.skipped.clear()
        request, items = self.ask.request, []
        for name, kernel in self.kernels.items():
            for shape in ladder.shapes(kernel.operation, request.device, self.ask.shapes):
                reason = kernel.out_of_scope(_claim(kernel, shape))
                if reason:
                    self.skipped.append((name, shape.label, reason))
                    continue
                items += [Item(name, f, shape) for f in formats_named(request.formats, kernel)]
        self.budget.planned = len(items)
        return items

    def rounds(self, item: Item) -> Rounds:
        """The rounds of an item, not yet warmed up.

        Each kernel gets a fresh process, so that none suffers from what another did to it.
        """
        kernel = self.kernels[item.kernel]
        if self._last not in (None, item.kernel):
            self.worker.restart()
        self._last = item.kernel
        bench = Bench(self.oracle, self.worker, self.ask.request.device)
        reference = self.reference(kernel.operation, item)
        subject = Runner(kernel, self.worker)
        return Rounds(subject, reference, item.format, item.shape, bench, self.seed)

    def reference(self, operation: OperationName, item: Item) -> Runner | None:
        """The reference in a worker of its own, where no user's code runs; None: not claimed."""
        name = self._reference_name(operation)
        if name is None:
            return None
        if name not in self._references:
            request = replace(self.ask.request, declared={}, operation=None, function=None)
            worker = self._open.enter_context(worker_for(replace(request, in_process=False)))
            self._references[name] = Runner(loaded(worker, name, request), worker)
        found = self._references[name]
        if item.format.name not in found.kernel.formats:
            return None
        if found.kernel.operation != operation:
            raise UsageError(f"--against {name!r} is {found.kernel.operation}, not {operation}")
        return None if found.kernel.out_of_scope(_claim(found.kernel, item.shape)) else found

    def _reference_name(self, operation: OperationName) -> str | None:
        if self.ask.against == "none":
            return None
        if self.ask.against != "auto":
            return self.ask.against
        device = self.ask.request.device if operation == "attention" else ""
        return REFERENCES[operation, device]

    def share(self, item: Item) -> float | str:
        """Seconds that an item may take, or why it is left out."""
        share = self.budget.share()
        if self.ask.rounds:
            return share
        reason = self.budget.too_long(item.kind, item.shape.work, share)
        if reason is None:
            return share
        self.skipped.append((f"{item.kernel} {item.format.name}", item.shape.label, reason))
        return reason

    def count(self, pair_seconds: float, share: float) -> int:
        """How many rounds are timed, now that the seconds of a pair are known."""
        return self.ask.rounds or rounds_within(pair_seconds, self.ask.seconds, share)

    def busy(self) -> float | None:
        """Cores kept busy by others, after waiting for silence as long as the run may wait."""
        started = time.monotonic()
        found = quiet.wait_for_quiet(max(self.ask.wait - self._waited, 0.0))
        self._waited += time.monotonic() - started
        return found

    def timing(self, item: Item, rounds: Rounds, busy: float | None) -> Timing:
        """Judge the kept outputs, and put the figures of finished rounds together."""
        kernel, shape, times = self.kernels[item.kernel], item.shape, rounds.times
        records = self.records[item.id] = list(self._checked(item, rounds))
        clocks = Clocks(tuple(times.inside), tuple(times.outside), tuple(times.device))
        reference = rounds.reference_times
        ratios = [r / t for r, t in zip(reference.inside, times.inside, strict=False)]
        traffic = shape.bytes(item.format, kernel.operation)
        count, scatter = len(times.inside), spread(times.inside)
        median = statistics.median(times.inside)
        pair = median + (statistics.median(reference.inside) if reference.inside else 0.0)
        self.budget.learn(item.kind, shape.work, pair)
        share = self.roofline.seconds(shape.flops, traffic, item.format.name) / median
        level, doubts = trust(scatter, busy, self.alone, count, share)
        if kernel.way == "command":
            level, doubts = "poor", [*doubts, "a call includes reading and writing files"]
        problems = self._problems(clocks, item, _conversation(rounds), busy)
        problems += integrity.remembered(rounds.repeats)
        return Timing(
            label=shape.label,
            shape=shape.sizes,
            rounds=count,
            seconds_median=median,
            seconds_least=min(times.inside),
            spread=scatter,
            overhead=statistics.median(clocks.around),
            flops=shape.flops,
            bytes=traffic,
            tokens=shape.tokens,
            roofline_share=share,
            verdict=worst(r.verdict for r in records).value,
            device_seconds=statistics.median(times.device) if times.device else None,
            peak_bytes=rounds.peak_bytes,
            against=rounds.reference.kernel.name if rounds.reference else None,
            ratio=statistics.median(ratios) if ratios else None,
            ratio_spread=spread(ratios) if ratios else None,
            checked=tuple(_told(r, n) for r, (n, _) in zip(records, rounds.kept, strict=True)),
            problems=problems,
            trust="poor" if problems else level,
            doubts=tuple(doubts),
            machine=self._machine(item, traffic, busy),
        )

    def _checked(self, item: Item, rounds: Rounds) -> Iterator[Record]:
        kernel = self.kernels[item.kernel]
        for number, answer in rounds.kept:
            place = sampled.draw(item.shape)
            inputs = rounds.inputs(number)
            bench = rounds.bench
            yield sampled.examine_rows(
                kernel, item.format, item.shape, inputs, answer, place, bench
            )

    def _problems(
        self, clocks: Clocks, item: Item, conversation: float | None, busy: float | None
    ) -> tuple[str, ...]:
        """What cannot be true; before a kernel is accused, the machine is measured once more."""
        kernel = self.kernels[item.kernel]
        traffic = item.shape.bytes(item.format, kernel.operation)
        # No product of 8-bit numbers is measured, so their arithmetic has no floor here.
        flops = item.shape.flops if item.format.width > 8 else 0.0
        silent = busy is not None and busy <= quiet.QUIET_CORES
        least = self.roofline.least_seconds(flops, traffic)
        found = integrity.problems(clocks, least, conversation, silent)
        if found:
            again = roofline.measure(self.ask.request.device, self._formats())
            self.roofline = self.roofline.joined(again)
            least = self.roofline.least_seconds(flops, traffic)
            found = integrity.problems(clocks, least, conversation, silent)
        return found

    def _machine(self, item: Item, traffic: float, busy: float | None) -> dict[str, Any]:
        return {
            "peak_flops": self.roofline.peak(item.format.name),
            "copy_rate": self.roofline.copy_rate(traffic),
            "threads": self.roofline.threads,
            "busy_cores": busy,
            "seed": self.seed,
            "cpu": self.kernels[item.kernel].environment.get("cpu_capability"),
            "gpu": self.kernels[item.kernel].environment.get("cuda"),
        }

    def blas(self) -> contextlib.AbstractContextManager[Any]:
        """One BLAS thread in this process: the oracle's products are small."""
        from threadpoolctl import threadpool_limits

        return threadpool_limits(limits=1, user_api="blas")  # type: ignore[no-any-return]

    def close(self) -> None:
        self.worker.close()
        self._open.close()


def _claim(kernel: Kernel, shape: Shape) -> Case:
    """A case that needs what the shape needs, to ask the kernel whether it claims it."""
    plan = Plan(kernel.operation, _any_format(kernel))
    if shape.axes is not None:
        return plan.attention("throughput", "", shape.axes, lambda draws: {})
    assert shape.rows is not None
    return plan.rows("throughput", "", shape.rows, lambda draws: draws.normal((1, 1)))


def _any_format(kernel: Kernel) -> Format:
    return formats_named("all", kernel)[0]


def _conversation(rounds: Rounds) -> float | None:
    """Longest time around the reference's calls."""
    times = rounds.reference_times
    if not times.inside:
        return None
    return max(Clocks(tuple(times.inside), tuple(times.outside)).around)


def _told(record: Record, number: int) -> dict[str, Any]:
    return {
        "round": number,
        "rows": record.case,
        "verdict": record.verdict.value,
        "tightness": record.tightness,
        "reason": record.reason,
    }
