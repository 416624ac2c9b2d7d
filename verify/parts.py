"""Parts: the outputs of an answer, each with the truth and the limits that decide about it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from references.enclosure import Enclosure
from verify.bounds import Bound
from verify.calling import input_format, outputs_of
from verify.case import Inputs
from verify.judge import Judgement, Limits, judge
from verify.kernel import Kernel
from verify.limits import lse_limits, output_limits
from verify.metrics import error_interval
from verify.operation import Operation
from verify.truth import Truth
from verify.worker import Answer, Output


@dataclass(frozen=True)
class Part:
    """One output of an answer with what decides about it.

    bound    that of this output, with its stages; None for the log-sum-exp
    """

    name: str
    output: Output
    truth: Enclosure
    limits: Limits
    bound: Bound | None

    def judgement(self) -> Judgement:
        error = error_interval(self.output.values, self.truth)
        return judge(self.output.values, self.truth, error, self.limits)


def parts_of(
    kernel: Kernel,
    operation: Operation,
    inputs: Inputs,
    answer: Answer,
    truth: Truth,
    limit: Bound,
) -> list[Part]:
    """The outputs of an answer, each with its truth and its limits."""
    shifted = all(m.shift for m in kernel.models(input_format(inputs)).variants)
    if operation.backward:
        names = outputs_of(kernel, operation, inputs)
        return [
            _gradient(name, output, truth, limit, shifted)
            for name, output in zip(names, answer.outputs, strict=True)
        ]
    limits = output_limits(limit, truth, shifted)
    parts = [Part("output", answer.outputs[0], truth.output, limits, limit)]
    if truth.lse is not None and len(answer.outputs) > 1:
        limits = lse_limits(limit, truth, kernel, shifted)
        parts.append(Part("lse", answer.outputs[1], truth.lse, limits, None))
    return parts


def reached(name: str, truth: Truth, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """
    Elements of a gradient that the unspecified rows of a truth reach.

    Shapes      shape: that of the gradient; rows (batch, heads, n_q).
    Definition  dq: the row.  dk: every key of its kv head, as dS of the whole row may be NaN.  dv:
                likewise, but only of rows whose P may be NaN: dV = P^T dO reads no value.  dbias:
                the elements into which the row is summed; dsinks: its head.
    Source      docs/theory/bounds.md, section 14.6.
    """
    rows = truth.unspecified_p if name == "dv" else truth.unspecified
    if rows is None:
        return np.zeros(shape, np.bool_)
    if name == "dq":
        return np.broadcast_to(rows[..., None], shape)
    if name in ("dk", "dv"):
        batch, kv_heads = shape[:2]
        grouped = np.asarray(rows.reshape(batch, kv_heads, -1).any(axis=2))
        return np.broadcast_to(grouped[..., None, None], shape)
    if name == "dsinks":
        return np.asarray(rows.any(axis=(0, 2)))
    aligned = (1,) * (4 - len(shape)) + shape
    shared = tuple(axis for axis in range(3) if aligned[axis] == 1)
    found = np.asarray(rows.any(axis=shared, keepdims=True))[..., None]
    return np.broadcast_to(found, aligned).reshape(shape)


def _gradient(name: str, output: Output, truth: Truth, limit: Bound, shifted: bool) -> Part:
    """A gradient; a missing shift excuses nothing (see `output_limits`)."""
    bound = limit.others.get(name, limit)
    excused = bound.flagged if shifted else np.zeros_like(bound.flagged)
    ignored = reached(name, truth, bound.flagged.shape)
    signal = truth.magnitudes.get(name)
    limits = Limits(bound.total, bound.probable, bound.flagged, excused, ignored, signal)
    return Part(name, output, truth.gradients[name], limits, bound)
