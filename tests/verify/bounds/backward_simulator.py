"""A backward pass that follows an arithmetic model to the letter, emulated in float64.

One head: q (m, d), k (n, d), v (n, d_v), do (m, d_v).  The exact gradients are formed in extended
precision, far below the roundoff of every format here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tests.verify.bounds.machine import Array, Machine, accumulate, rounded, row_total
from tests.verify.bounds.simulator import LOG2_E, Exponent, Problem, scores, simulate
from verify.arithmetic import ArithmeticModel, Chain
from verify.formats import FORMATS

Gradients = dict[str, Array]


def exact(problem: Problem, do: Array) -> Gradients:
    """dq, dk, dv, dbias (of a bias per pair) and dsinks in extended precision."""
    wide = np.longdouble
    q, k, v, g = (x.astype(wide) for x in (problem.q, problem.k, problem.v, do))
    t = wide(problem.scale) * (q @ k.T)
    slope = np.ones_like(t)
    if problem.softcap is not None:
        th = np.tanh(t / problem.softcap)
        t, slope = problem.softcap * th, 1 / np.cosh(t / problem.softcap) ** 2
    s = t if problem.bias is None else t + np.where(problem.visible, problem.bias, 0.0)
    s = np.where(problem.visible, s, -np.inf)
    sink = -np.inf if problem.sink is None else problem.sink
    m = np.maximum(s.max(axis=1), sink)
    m = np.where(np.isfinite(m), m, 0)[:, None]
    e, e_sink = np.exp(s - m), np.exp(wide(sink) - m)
    total = e.sum(axis=1, keepdims=True) + e_sink
    total = np.where(total == 0, 1, total)
    p, p_sink = e / total, e_sink / total
    dp = g @ v.T
    d = (p * dp).sum(axis=1, keepdims=True)
    ds = p * (dp - d)
    dx = ds * slope
    tau = wide(problem.scale)
    found = {"dq": tau * dx @ k, "dk": tau * dx.T @ q, "dv": p.T @ g, "dbias": ds}
    found["dsinks"] = np.array([-(p_sink * d).sum()])
    return {name: np.asarray(x, np.float64) for name, x in found.items()}


@dataclass(frozen=True)
class _Forward:
    """What the forward pass left: P without sink's column, and that of the sink."""

    p: Array
    p_sink: Array


def simulate_backward(
    problem: Problem, do: Array, model: ArithmeticModel, seed: int = 0
) -> Gradients:
    """The gradients of a kernel that follows the model."""
    machine = Machine(model, np.random.default_rng(seed))
    r = machine.r
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        kept = _again(problem, machine, seed) if model.backward_p == "lse" else _kept(
            problem, machine)  # fmt: skip
        p, p_sink = (_to(x, model.backward_p_format) for x in (kept.p, kept.p_sink))
        for _ in range(model.more_roundings):
            p = r(p * (1 + machine.rng.uniform(-1, 1, p.shape) * 2.0**-25))
        low_p = _to(p, model.p_format)
        dp = _gemm(model, do, problem.v.T, model.input)
        dp = _to(dp, model.dp_format)
        d = _delta(problem, machine, do, p, dp, seed)[:, None]
        ds = r(p * r(dp - d)) if model.ds_form == "difference" else r(r(p * dp) - r(p * d))
        sink = r(p_sink * r(0.0 - d))
        dx = ds if problem.softcap is None else r(ds * _slope(problem, machine))
        tau = r(np.array(problem.scale))
        if model.gradient_scale == "operands":
            dx = r(dx * tau)
        for _ in range(model.ds_roundings):
            dx = _to(dx, model.ds_format or model.p_format)
        dq = _running(model, dx, problem.k, 1)
        dk = _running(model, dx.T, problem.q, 0)
        dv = _running(model, low_p.T, do, 0)
        if model.gradient_scale == "last":
            dq, dk = r(dq * tau), r(dk * tau)
        found = {"dq": dq, "dk": dk, "dv": dv, "dbias": ds}
        total = accumulate(Chain("fp32"), np.zeros((1, 1)), np.ones((1, len(sink))), sink, (0, 0),
                           False)  # fmt: skip
        found["dsinks"] = total[0]
        return {name: rounded(x, model.output) for name, x in found.items()}


def _to(x: Array, name: str | None) -> Array:
    return x if name is None else rounded(x, name)


def _gemm(model: ArithmeticModel, a: Array, b: Array, left: str) -> Array:
    emin = float(FORMATS[left].emin), float(FORMATS[model.input].emin)
    start = np.zeros((a.shape[0], b.shape[1]))
    return accumulate(model.gradients, start, a, b, emin, model.flush_to_zero)


def _running(model: ArithmeticModel, a: Array, b: Array, axis: int) -> Array:
    """A gradient: in the accumulator, or rounded to the output after every block."""
    left = model.ds_format or model.p_format
    if model.gradient_block is None:
        return _gemm(model, a, b, left)
    step = model.gradient_block[axis]
    total = np.zeros((a.shape[0], b.shape[1]))
    for first in range(0, a.shape[1], step):
        some = slice(first, first + step)
        total = rounded(total + _gemm(model, a[:, some], b[some], left), model.output)
    return total


def _again(problem: Problem, machine: Machine, seed: int) -> _Forward:
    """exp(s - LSE), with the LSE that the forward pass stored."""
    model, r = machine.model, machine.r
    _, lse = simulate(problem, model, seed)
    s, constant = scores(problem, machine)
    finite = np.where(np.isfinite(lse), lse, 0.0)[:, None]
    live = np.isfinite(s) & np.isfinite(lse)[:, None]
    s = np.where(live, s, 0.0)
    sink = np.full((len(s), 1), 0.0 if problem.sink is None else r(np.array(problem.sink)))
    if model.exponential == "difference":
        p, p_sink = machine.exp(r(s - finite)), machine.exp(r(sink - finite))
    else:
        c, log2_e = r(np.array(constant * LOG2_E)), r(np.array(LOG2_E))
        shift = r(finite * log2_e)
        p = machine.exp(r(s * c - shift) / LOG2_E)
        p_sink = machine.exp(r(sink * log2_e - shift) / LOG2_E)
    p_sink = np.where(np.isfinite(lse)[:, None] & (problem.sink is not None), p_sink, 0.0)
    return _Forward(np.where(live, p, 0.0), p_sink)


def _kept(problem: Problem, machine: Machine) -> _Forward:
    """e / l of one block."""
    model, r = machine.model, machine.r
    assert model.block is None
    assert model.splits == 1
    s, constant = scores(problem, machine)
    exponent = Exponent(machine, constant)
    sink = np.full(len(s), -np.inf if problem.sink is None else float(r(np.array(problem.sink))))
    m = np.maximum(s.max(axis=1), sink)
    live = np.isfinite(s)
    e = np.where(live, exponent.weight(np.where(live, s, 0.0), m), 0.0)
    there = np.isfinite(sink)[:, None]
    e_sink = np.where(there, exponent.weight(np.where(there, sink[:, None], 0.0), m), 0.0)
    total = row_total(model, np.zeros(len(s)), np.concatenate([e, e_sink], axis=1))
    inverse = r(1 / np.where(total == 0, 1.0, total))[:, None]
    return _Forward(r(e * inverse), r(e_sink * inverse))


def _delta(problem: Problem, machine: Machine, do: Array, p: Array, dp: Array, seed: int) -> Array:
    model, r = machine.model, machine.r
    total = np.zeros(len(do))
    if model.delta == "output":
        stored = replace(model, output=model.delta_format or model.output)
        left, right = do, simulate(problem, stored, seed)[0]
    else:
        left, right = p, dp
    for i in range(left.shape[1]):
        total = r(total + left[:, i] * right[:, i])
    return total


def _slope(problem: Problem, machine: Machine) -> Array:
    """1 - tanh(x / C)^2."""
    r = machine.r
    bare = replace(problem, softcap=None, bias=None, visible=np.ones_like(problem.visible))
    x, constant = scores(bare, Machine(replace(machine.model, stored_scores=None), machine.rng))
    th = machine.tanh(r(x * constant / r(np.array(problem.softcap))))
    return r(1 - r(th * th))


def upstream(problem: Problem, fmt: str, kind: str, seed: int = 0) -> Array:
    """A gradient from above: normal, or 1 everywhere."""
    shape = (len(problem.q), problem.v.shape[1])
    if kind == "ones":
        return np.ones(shape)
    return rounded(np.random.default_rng(seed + 7).standard_normal(shape), fmt)
