"""Throughput: how fast a kernel is on plain inputs, measured by the parent's clock.

A time is that of one call as the parent sees it, less nothing: a small constant (the conversation
with the worker, reported as `overhead`) is part of it, so that a kernel cannot gain by lying about
its own clock.  Inputs are fresh in every round.  The last round's output is judged like any other.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from verify.case import Case, Inputs, Plan, Tensor
from verify.formats import Format
from verify.judge import Verdict
from verify.kernel import Kernel
from verify.operation import Operation
from verify.pipeline import Bench, examine, run

ATTENTION_SHAPES = ((1, 4, 256, 64), (1, 4, 1024, 64))  # batch, heads, n, d
SOFTMAX_SHAPES = ((64, 1024), (256, 4096))  # rows, n
ROUNDS = 9


@dataclass(frozen=True)
class Timing:
    """Times of one kernel at one shape.

    seconds_median, seconds_least   of one call, by the parent's clock
    overhead    median time of the conversation around the call (already part of seconds)
    flops       floating-point operations counted as 2 n_q n_k (d + d_v) per head, or 4 n per row
    bytes       input and output, each counted once
    verdict     of the output of the last round
    """

    shape: tuple[int, ...]
    rounds: int
    seconds_median: float
    seconds_least: float
    overhead: float
    flops: float
    bytes: float
    tokens: float
    verdict: str

    def to_json(self) -> dict[str, Any]:
        rates = {
            "flops_per_second": self.flops / self.seconds_median,
            "bytes_per_second": self.bytes / self.seconds_median,
            "tokens_per_second": self.tokens / self.seconds_median,
        }
        return {**asdict(self), "shape": list(self.shape), **rates}


def shapes(kernel: Kernel) -> tuple[tuple[int, ...], ...]:
    """The shapes at which a kernel is timed."""
    return ATTENTION_SHAPES if kernel.operation == "attention" else SOFTMAX_SHAPES


def timed_case(kernel: Kernel, fmt: Format, shape: tuple[int, ...], round_: int = 0) -> Case:
    """Standard-normal inputs of a shape, other ones in every round."""
    plan = Plan(kernel.operation, fmt)

    def build() -> Inputs:
        draws = plan.draws("throughput", shape, round_)
        names = ("q", "k", "v") if kernel.operation == "attention" else ("x",)
        full = (shape[0], shape[1], shape[2], shape[3]) if len(shape) == 4 else shape
        return Inputs({name: Tensor.rounded(fmt, draws.normal(full)) for name in names})

    label = "x".join(map(str, shape))
    return Case("throughput", f"{label}-{round_}", fmt, Operation(kernel.operation), build)


def measure(kernel: Kernel, fmt: Format, bench: Bench, rounds: int = ROUNDS) -> list[Timing]:
    """Time a kernel at each of its shapes: one call to warm up, then `rounds` timed ones."""
    return [_measure(kernel, fmt, bench, shape, rounds) for shape in shapes(kernel)]


def _measure(
    kernel: Kernel, fmt: Format, bench: Bench, shape: tuple[int, ...], rounds: int
) -> Timing:
    seconds, around = [], []
    for number in range(rounds + 1):
        taken, inside = timed_call(kernel, bench, timed_case(kernel, fmt, shape, number))
        seconds.append(taken)
        around.append(taken - inside)
    case = timed_case(kernel, fmt, shape, rounds)
    return timing(kernel, fmt, shape, seconds[1:], around[1:], examine(case, kernel, bench).verdict)


def timed_call(kernel: Kernel, bench: Bench, case: Case) -> tuple[float, float]:
    """Seconds of one call by our clock, and by the worker's."""
    call = prepared(kernel, bench, case)
    started = time.perf_counter()
    inside = call()
    return time.perf_counter() - started, inside


def prepared(kernel: Kernel, bench: Bench, case: Case) -> Callable[[], float]:
    """The call of a case, its inputs already made; gives the worker's own seconds."""
    inputs = case.build()
    d = inputs["q"].shape[3] if kernel.operation == "attention" else None
    operation = kernel.resolve(case.operation, d)
    return lambda: run(kernel, operation, inputs, bench).seconds


def timing(
    kernel: Kernel,
    fmt: Format,
    shape: tuple[int, ...],
    seconds: list[float],
    around: list[float],
    verdict: Verdict,
) -> Timing:
    """Put the figures of one shape together."""
    flops, elements, tokens = counts(kernel, shape)
    return Timing(
        shape=shape,
        rounds=len(seconds),
        seconds_median=statistics.median(seconds),
        seconds_least=min(seconds),
        overhead=statistics.median(around),
        flops=flops,
        bytes=elements * fmt.width / 8,
        tokens=tokens,
        verdict=verdict.value,
    )


def counts(kernel: Kernel, shape: tuple[int, ...]) -> tuple[float, float, float]:
    """Floating-point operations, elements in and out, and tokens (or rows) of one call."""
    if kernel.operation == "attention":
        batch, heads, n, d = shape
        return 4.0 * batch * heads * n * n * d, 4.0 * batch * heads * n * d, float(batch * n)
    rows, n = shape
    out = rows if kernel.operation == "logsumexp" else rows * n
    return 4.0 * rows * n, float(rows * n + out), float(rows)
