"""Kernels on the machine of `machine`: attention and softmax step by step.

One head: q (m, d), k (n, d), v (n, d_v).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tests.verify.bounds.machine import (
    Array,
    Machine,
    accumulate,
    rounded,
    row_total,
)
from verify.arithmetic import ArithmeticModel
from verify.formats import FORMATS

LOG2_E = math.log2(math.e)


@dataclass(frozen=True)
class Problem:
    """One head of attention; visible (m, n), bias (m, n) or None, sink a number or None."""

    q: Array
    k: Array
    v: Array
    scale: float
    visible: NDArray[np.bool_]
    bias: Array | None = None
    softcap: float | None = None
    sink: float | None = None


# --- scores -----------------------------------------------------------------------------------


def scores(problem: Problem, machine: Machine) -> tuple[Array, float]:
    """(scores in the units of the exponent, -inf where not visible; the constant that is left)."""
    model = machine.model
    q, k = _operands(problem, machine)
    emin = FORMATS[model.convert[0] if model.convert else model.operands].emin
    y = accumulate(model.qk, np.zeros((len(q), len(k))), q, k.T, (emin, emin), model.flush_to_zero)
    y = _stored(model, y, each=True)
    plain = problem.softcap is None and problem.bias is None and problem.sink is None
    constant = 1.0
    if model.scale_position == "exponent" and model.exponential == "fma" and plain:
        constant = problem.scale
    elif model.scale_position in ("scores", "exponent"):
        fmt = model.scale_format
        y = rounded(y * rounded(np.array(problem.scale), fmt), fmt, flush=model.flush_to_zero)
        y = _stored(model, y, each=True)
    s = _options(problem, machine, y)
    s = _stored(model, s, each=model.stores == "each" and problem.bias is not None)
    return np.where(problem.visible, s, -np.inf), constant


def _operands(problem: Problem, machine: Machine) -> tuple[Array, Array]:
    model = machine.model
    q, k = problem.q, problem.k

    def to(x: Array) -> Array:
        return rounded(x, model.operands, flush=model.flush_to_zero)

    if model.scale_position == "query":
        q = to(q * rounded(np.array(problem.scale), model.scale_format))
    if model.scale_position == "both":
        root = rounded(np.sqrt(rounded(np.array(abs(problem.scale)), model.scale_format)),
                       model.scale_format)  # fmt: skip
        q, k = to(q * math.copysign(1.0, problem.scale) * root), to(k * root)
    if model.convert:
        q, k = (rounded(x, *model.convert) for x in (q, k))
    return q, k


def _stored(model: ArithmeticModel, x: Array, each: bool) -> Array:
    wanted = model.stored_scores is not None and (model.stores == "each") == each
    return rounded(x, model.stored_scores or "") if wanted else x


def _options(problem: Problem, machine: Machine, x: Array) -> Array:
    """Softcap and bias."""
    r, model = machine.r, machine.model
    if problem.softcap is not None:
        cap = r(np.array(problem.softcap))
        x = r(cap * machine.tanh(r(x / cap)))
        x = _stored(model, x, each=True)
    if problem.bias is not None:
        x = r(x + np.where(problem.visible, problem.bias, 0.0))
    return x


# --- softmax and P V --------------------------------------------------------------------------


@dataclass
class State:
    """Running maximum (in the units of the scores), row sum, and unnormalised output."""

    m: Array
    l: Array  # noqa: E741
    o: Array


@dataclass(frozen=True)
class Exponent:
    """exp(s - m) as the model forms it."""

    machine: Machine
    constant: float

    def c(self) -> Array:
        return self.machine.r(np.array(self.constant * LOG2_E))

    def weight(self, s: Array, m: Array) -> Array:
        """exp of scores (m, keys) under the shift m (m,)."""
        machine, model = self.machine, self.machine.model
        shift = np.where(np.isfinite(m), m, 0.0)[:, None]
        if not model.shift:
            return machine.exp(s)
        if model.exponential == "difference":
            return machine.exp(machine.r(s - shift))
        with np.errstate(invalid="ignore"):
            z = machine.r(s * self.c() - machine.r(shift * self.c()))
        return machine.exp(z / LOG2_E)

    def factor(self, before: Array, after: Array) -> Array:
        """exp(m_before - m_after), 0 where there was nothing before."""
        machine = self.machine
        nothing = ~np.isfinite(before)
        gap = machine.r(np.where(nothing, 0.0, before) - np.where(np.isfinite(after), after, 0.0))
        if machine.model.exponential == "fma":
            gap = machine.r(gap * self.c()) / LOG2_E
        return np.where(nothing, 0.0, np.where(gap == 0, 1.0, machine.exp(gap)))

    def natural(self, m: Array) -> Array:
        """m as it enters the log-sum-exp."""
        machine = self.machine
        if machine.model.exponential == "difference":
            return m
        finite = np.where(np.isfinite(m), m, 0.0)
        value = machine.r(machine.r(finite * self.c()) * machine.r(np.array(1 / LOG2_E)))
        return np.where(np.isfinite(m), value, m)


def simulate(problem: Problem, model: ArithmeticModel, seed: int = 0) -> tuple[Array, Array]:
    """(output (m, d_v), log-sum-exp (m,)) of a kernel that follows the model."""
    machine = Machine(model, np.random.default_rng(seed))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        s, constant = scores(problem, machine)
        exponent = Exponent(machine, constant)
        edges = np.linspace(0, len(problem.k), model.splits + 1).astype(int)
        parts = [
            _part(problem, exponent, s, slice(a, b), sink=i == 0)
            for i, (a, b) in enumerate(pairwise(edges))
        ]
        output, lse = parts[0] if len(parts) == 1 else _merged(machine, parts)
        return rounded(output, model.output), rounded(lse, model.lse_format)


def _part(
    problem: Problem, exponent: Exponent, s: Array, keys: slice, sink: bool
) -> tuple[Array, Array]:
    """Output and log-sum-exp of some keys."""
    machine, model = exponent.machine, exponent.machine.model
    rows, d_v = len(problem.q), problem.v.shape[1]
    state = State(np.full(rows, -np.inf), np.zeros(rows), np.zeros((rows, d_v)))
    weights: list[tuple[Array, Array, Array]] = []
    if sink and problem.sink is not None and model.block is None and model.shift:
        state.m = _sink_score(problem.sink, exponent, rows)  # one block: one maximum of everything
    for block in _blocks(model, keys):
        _visit(problem, exponent, state, s[:, block], problem.v[block], weights)
    if sink and problem.sink is not None:
        _visit_sink(problem.sink, exponent, state)
    nothing = state.l == 0
    state.l = rounded(state.l, model.stored_row_sum or model.row_sum.format)
    l = np.where(nothing, 1.0, state.l)  # noqa: E741
    if model.p_normalised:
        o = _normalised(exponent, state, weights, l)
    else:
        o = machine.r(state.o * machine.r(1 / l)[:, None])
    log = machine.log(l)
    m = exponent.natural(state.m) if model.shift else np.zeros(rows)
    lse = np.where(nothing, -np.inf, machine.r(m + log))
    return np.where(nothing[:, None], 0.0, o), lse


def _blocks(model: ArithmeticModel, keys: slice) -> Iterator[slice]:
    length = model.block or max(1, keys.stop - keys.start)
    for first in range(keys.start, keys.stop, length):
        yield slice(first, min(first + length, keys.stop))


def _new_maximum(exponent: Exponent, state: State, top: Array) -> Array:
    """The next shift: the running maximum, unless a rescale may wait."""
    model = exponent.machine.model
    m = np.maximum(state.m, top)
    if model.max_offset:
        offset = exponent.machine.r(np.array(model.max_offset / exponent.constant / 1.001))
        m = np.maximum(state.m, exponent.machine.r(top + offset))
    if model.lazy:
        with np.errstate(invalid="ignore"):
            wait = (m - state.m) * exponent.constant * LOG2_E <= model.lazy
        m = np.where(wait & np.isfinite(state.m), state.m, m)
    return m


def _visit(
    problem: Problem,
    exponent: Exponent,
    state: State,
    s: Array,
    v: Array,
    weights: list[tuple[Array, Array, Array]],
) -> None:
    model = exponent.machine.model
    before = state.m
    if model.shift:
        state.m = _new_maximum(exponent, state, s.max(axis=1))
        alpha = exponent.factor(before, state.m)
    else:
        alpha = np.ones(len(s))
    e = np.where(np.isfinite(s), exponent.weight(np.where(np.isfinite(s), s, 0.0), state.m), 0.0)
    p = e if model.p_normalised else _stored_p(model, e)
    state.l = rounded(state.l * alpha, model.row_sum.format, flush=model.flush_to_zero)
    state.l = row_total(model, state.l, p if model.row_sum_of == "rounded" else e)
    if model.p_normalised:
        weights.append((e, v, s))
        return
    name = "fp32" if model.pv.format == "e8m13" else model.pv.format
    state.o = rounded(state.o * alpha[:, None], name, flush=model.flush_to_zero)
    state.o = _products(model, state.o, p, v)


def _visit_sink(sink: float, exponent: Exponent, state: State) -> None:
    model = exponent.machine.model
    value = _sink_score(sink, exponent, len(state.l))
    before = state.m
    if model.shift:
        state.m = np.maximum(state.m, value)
    alpha = exponent.factor(before, state.m) if model.shift else np.ones(len(value))
    e = exponent.weight(value[:, None], state.m)
    state.l = rounded(state.l * alpha, model.row_sum.format)
    state.l = row_total(model, state.l, e)
    state.o = rounded(state.o * alpha[:, None], "fp32")


def _sink_score(sink: float, exponent: Exponent, rows: int) -> Array:
    value = exponent.machine.r(np.full(rows, sink))
    stored = exponent.machine.model.stored_scores
    return rounded(value, stored) if stored else value


def _stored_p(model: ArithmeticModel, p: Array) -> Array:
    scaled = p * 2.0**model.p_offset
    fmt = FORMATS[model.p_format]
    stored = fmt.round(scaled, saturate=True) if fmt.specials == "fn" else rounded(
        scaled, model.p_format)  # fmt: skip
    if model.flush_p:
        stored = np.where(np.abs(stored) < fmt.smallest_normal, 0.0, stored)
    return stored * 2.0**-model.p_offset


def _products(model: ArithmeticModel, start: Array, p: Array, v: Array) -> Array:
    emin = float(FORMATS[model.p_format].emin - model.p_offset), float(FORMATS[model.input].emin)
    if model.convert:
        p, v = (rounded(x, *model.convert) for x in (p, v))
        emin = float(FORMATS[model.convert[0]].emin), float(FORMATS[model.convert[0]].emin)
    return accumulate(model.pv, start, p, v, emin, model.flush_to_zero)


def _normalised(
    exponent: Exponent,
    state: State,
    weights: list[tuple[Array, Array, Array]],
    l: Array,  # noqa: E741
) -> Array:
    machine, model = exponent.machine, exponent.machine.model
    o = state.o
    for e, v in _second_pass(exponent, state, weights):
        p = rounded(machine.r(e / l[:, None]), model.p_format)
        if model.flush_p:
            p = np.where(np.abs(p) < FORMATS[model.p_format].smallest_normal, 0.0, p)
        o = _products(model, o, p, v)
    return o


def _second_pass(
    exponent: Exponent, state: State, weights: list[tuple[Array, Array, Array]]
) -> list[tuple[Array, Array]]:
    """Exponentials under the last shift: those of the only block, or formed anew."""
    if not exponent.machine.model.block:
        return [(e, v) for e, v, _ in weights]
    found = []
    for _, v, s in weights:
        live = np.isfinite(s)
        found.append((np.where(live, exponent.weight(np.where(live, s, 0.0), state.m), 0.0), v))
    return found


def _merged(machine: Machine, parts: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Split-KV: parts weighted by the exponential of their log-sum-exp."""
    r = machine.r
    lse = np.stack([part[1] for part in parts])
    top = lse.max(axis=0)
    safe = np.where(np.isfinite(top), top, 0.0)
    w = np.where(np.isfinite(lse), machine.exp(r(np.where(np.isfinite(lse), lse, 0.0) - safe)), 0.0)
    total = np.zeros(top.shape)
    for one in w:
        total = r(total + one)
    nothing = total == 0
    output = np.zeros(parts[0][0].shape)
    for one, part in zip(w, parts, strict=True):
        output = r(output + r(r(one / np.where(nothing, 1.0, total))[:, None] * part[0]))
    whole = r(safe + machine.log(np.where(nothing, 1.0, total)))
    return output, np.where(nothing, -np.inf, whole)


# --- softmax alone ----------------------------------------------------------------------------


def simulate_softmax(name: str, x: Array, model: ArithmeticModel, seed: int = 0) -> Array:
    """softmax, log_softmax or logsumexp of rows under the model."""
    machine = Machine(model, np.random.default_rng(seed))
    rows, n = x.shape
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        exponent = Exponent(machine, 1.0)
        state = State(np.full(rows, -np.inf), np.zeros(rows), np.zeros((rows, 0)))
        online = replace(model, p_normalised=True, row_sum_of="unrounded")
        exponent = Exponent(Machine(online, machine.rng), 1.0)
        kept: list[tuple[Array, Array, Array]] = []
        for block in _blocks(model, slice(0, n)):
            nothing = np.zeros((0, 0))
            _visit(_no_problem(), exponent, state, x[:, block], nothing, kept)
        state.l = rounded(state.l, model.stored_row_sum or model.row_sum.format)
        e = np.concatenate([w for w, _ in _second_pass(exponent, state, kept)], axis=1)
        if name == "softmax":
            result = machine.r(e * machine.r(1 / state.l)[:, None])
            if model.block is None:
                result = machine.r(e / state.l[:, None])
            return rounded(result, model.output)
        m = exponent.natural(state.m) if model.shift else np.zeros(rows)
        log = machine.log(state.l)
        whole = machine.r(m + log)
        if name == "logsumexp":
            return rounded(whole, model.output)
        if model.log_softmax == "lse" or not model.shift:
            return rounded(machine.r(x - whole[:, None]), model.output)
        shifted = machine.r(x - state.m[:, None])
        return rounded(machine.r(shifted - log[:, None]), model.output)


def _no_problem() -> Problem:
    nothing = np.zeros((0, 0))
    return Problem(nothing, nothing, nothing, 1.0, nothing.astype(bool))
