"""Sampled: the output of a timed round, judged on a few of its rows like any other output."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from verify.bench.shape import Shape
from verify.calling import Bench
from verify.case import Case, Inputs, Tensor
from verify.certificate import Record
from verify.formats import Format
from verify.kernel import Kernel
from verify.operation import Operation
from verify.pipeline import examine
from verify.worker import Answer, Output

ROWS = 8
GIVEN = "graded outputs"


@dataclass(frozen=True)
class Ready:
    """A runner whose answer is there already."""

    answer: Answer

    def run(self, kernel: str, inputs: Inputs, options: Any, shapes: Any, **where: Any) -> Answer:
        return self.answer


@dataclass(frozen=True)
class Place:
    """Rows of one head (batch, head, queries), or of a matrix (batch = head = 0)."""

    batch: int
    head: int
    rows: tuple[int, ...]


def draw(shape: Shape) -> Place:
    """A head and at most ROWS of its rows, from the system's generator: nobody foresees them."""
    a = shape.axes
    batch, heads, count = (a.batch, a.heads, a.n_q) if a else (1, 1, (shape.rows or (1,))[0])
    chosen = {secrets.randbelow(count) for _ in range(ROWS)}
    return Place(secrets.randbelow(batch), secrets.randbelow(heads), tuple(sorted(chosen)))


def examine_rows(
    kernel: Kernel,
    fmt: Format,
    shape: Shape,
    inputs: Inputs,
    answer: Answer,
    place: Place,
    bench: Bench,
) -> Record:
    """Judge the rows of `place`. Each row of these operations depends on its own query alone, so
    that the bound of the smaller problem is that of the row."""
    part = of_rows(inputs, place)
    outputs = tuple(Output(o.format, _rows(o.bits, place)) for o in answer.outputs)
    label = f"{shape.label}-{place.batch}.{place.head}.{'.'.join(map(str, place.rows))}"
    case = Case("throughput", label, fmt, Operation(kernel.operation), lambda: part)
    ready = Ready(replace(answer, outputs=outputs))
    given = replace(kernel, way=GIVEN)  # outputs that are there: nothing is called a second time
    return examine(case, given, replace(bench, runner=ready, grading=False, bounds={}))


def of_rows(inputs: Inputs, place: Place) -> Inputs:
    """The smaller problem that gives the same rows."""
    if "x" in inputs.tensors:
        return Inputs({"x": _part(inputs["x"], (list(place.rows),))})
    head = (slice(place.batch, place.batch + 1), slice(place.head, place.head + 1))
    return Inputs(
        {
            "q": _part(inputs["q"], (*head, list(place.rows))),
            "k": _part(inputs["k"], head),
            "v": _part(inputs["v"], head),
        }
    )


def _part(tensor: Tensor, at: tuple[Any, ...]) -> Tensor:
    return Tensor(tensor.format, np.ascontiguousarray(tensor.bits[at]))


def _rows(bits: Any, place: Place) -> Any:
    """The same rows of an output: (batch, heads, n_q, ...) or (rows, ...)."""
    if bits.ndim < 3:
        return np.ascontiguousarray(bits[list(place.rows)])
    part = bits[place.batch : place.batch + 1, place.head : place.head + 1]
    return np.ascontiguousarray(part[:, :, list(place.rows)])
