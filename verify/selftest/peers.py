"""What other projects' gates say of each control, each gate on its own input distribution.

Their rules are written down here as they stand in their repositories, with a reference that is
better than theirs (binary64 on the stored inputs), so that what passes is passed by the rule and
its inputs.  Nothing here decides a verdict of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verify.calling import Bench, run
from verify.case import Arrays, Axes, Case, Inputs, Plan
from verify.errors import KernelError
from verify.formats import Format, format_named
from verify.integers import Draws
from verify.kernel import Kernel
from verify.operation import Operation
from verify.selftest.expected import table as expected_table
from verify.selftest.hunt import load
from verify.selftest.plan import members
from verify.selftest.running import MEMORY
from verify.truth import Oracle
from verify.worker import Worker

Array = NDArray[np.float64]
Accepts = Callable[["Sides", Format], bool]


@dataclass(frozen=True)
class Sides:
    """The output of the kernel under test, of binary64, and of the project's own baseline."""

    out: Array
    reference: Array
    baseline: Array


@dataclass(frozen=True)
class Gate:
    """One project's acceptance rule.

    draw      one input array of a shape, from its distribution
    cases     axes and options that its tests use
    accepts   the rule
    eager     the baseline stores scores and P in the input format (else: one rounding at the end)
    """

    name: str
    rule: str
    source: str
    draw: Callable[[Draws, tuple[int, ...]], Array]
    cases: tuple[tuple[Axes, Operation], ...]
    accepts: Accepts
    eager: bool = True


PLAIN, CAUSAL = Operation("attention"), Operation("attention", causal=True)


def _normal(factor: float, draws: Draws, shape: tuple[int, ...]) -> Array:
    return np.asarray(factor * draws.normal(shape))


def _uniform(draws: Draws, shape: tuple[int, ...]) -> Array:
    return np.asarray(draws.uniform(shape))


def _close(limits: dict[str, tuple[float, float]], sides: Sides, fmt: Format) -> bool:
    """|out - reference| <= absolute + relative |reference| in every element."""
    absolute, relative = limits[fmt.name]
    error = np.abs(sides.out - sides.reference)
    return bool((error <= absolute + relative * np.abs(sides.reference)).all())


def _twice(sides: Sides, fmt: Format) -> bool:
    """The largest error is at most twice that of eager attention in the same format."""
    theirs = np.abs(sides.baseline - sides.reference).max()
    return bool(np.abs(sides.out - sides.reference).max() <= 2 * theirs + 1e-5)


def _fudge(sides: Sides, fmt: Format) -> bool:
    """The largest error is at most max(1e-5, 4 times that of the math backend)."""
    theirs = float(np.abs(sides.baseline - sides.reference).max())
    return bool(np.abs(sides.out - sides.reference).max() <= max(1e-5, 4 * theirs))


def _mean(sides: Sides, fmt: Format) -> bool:
    """The mean error is within 1.1 times that of eager attention (10 times: binary32) of it."""
    fudge = 10.0 if fmt.name == "fp32" else 1.1
    ours = float(np.abs(sides.out - sides.reference).mean())
    theirs = float(np.abs(sides.baseline - sides.reference).mean())
    return abs(ours - theirs) <= 1e-7 + fudge * theirs


def _cosine(least: float, sides: Sides, fmt: Format) -> bool:
    a, b = sides.out.ravel(), sides.reference.ravel()
    norm = float(np.sqrt((a @ a) * (b @ b)))
    return bool(norm > 0 and (a @ b) / norm >= least)


HEADS = {"batch": 2, "heads": 4}
SQUARE = ((Axes(256, 256, **HEADS), PLAIN), (Axes(256, 256, **HEADS), CAUSAL))
FLASH = tuple(
    (Axes(n_q, n_k, heads=6, kv_heads=kv), operation)
    for n_q, n_k, kv in ((113, 203, 6), (128, 217, 2), (256, 256, 1), (64, 128, 6))
    for operation in (
        PLAIN,
        CAUSAL,
        Operation("attention", window=(37, 21)),
        Operation("attention", causal=True, softcap=15.0),
    )
)
SAME = dict.fromkeys(("fp16", "bf16", "fp32"), (1e-2, 1e-2))

GATES = (
    Gate(
        "allclose 1e-2",
        "absolute and relative 1e-2",
        "the usual test of a kernel repository; vllm v1/test_attention_backends.py",
        partial(_normal, 1.0),
        SQUARE,
        partial(_close, SAME),
    ),
    Gate(
        "FlashAttention",
        "largest error at most twice that of eager attention in the same format",
        "Dao-AILab/flash-attention tests/test_flash_attn.py",
        partial(_normal, 1.0),
        FLASH,
        _twice,
    ),
    Gate(
        "PyTorch SDPA",
        "largest error at most 4 times that of the math backend (fudge factor)",
        "pytorch test/test_transformers.py",
        _uniform,
        SQUARE,
        _fudge,
        eager=False,
    ),
    Gate(
        "FlexAttention",
        "mean error within 1.1 times that of eager attention",
        "pytorch test/inductor/test_flex_attention.py",
        partial(_normal, 1.0),
        SQUARE,
        _mean,
    ),
    Gate(
        "FlashInfer",
        "absolute and relative 1e-3 (binary16, binary32), 1e-2 (bfloat16)",
        "flashinfer tests/attention/test_batch_prefill_kernels.py",
        partial(_normal, 1.0),
        (*SQUARE, (Axes(37, 97, heads=4, kv_heads=2, d=128), CAUSAL)),
        partial(_close, {"fp16": (1e-3, 1e-3), "bf16": (1e-2, 1e-2), "fp32": (1e-3, 1e-3)}),
    ),
    Gate(
        "xformers",
        "absolute 4e-3, 2e-2, 3e-4 and relative 4e-4, 5e-3, 2e-5 (binary16, bfloat16, binary32)",
        "xformers tests/test_mem_eff_attention.py",
        partial(_normal, 3.0),
        SQUARE,
        partial(_close, {"fp16": (4e-3, 4e-4), "bf16": (2e-2, 5e-3), "fp32": (3e-4, 2e-5)}),
    ),
    Gate(
        "KernelBench",
        "absolute and relative 1e-2 (1e-4 in binary32)",
        "KernelBench src/kernelbench/eval.py",
        _uniform,
        ((Axes(256, 256, **HEADS), PLAIN),),
        partial(_close, SAME | {"fp32": (1e-4, 1e-4)}),
    ),
    Gate(
        "cosine 0.95",
        "cosine similarity of at least 0.95",
        "flashinfer tests/attention/test_nvfp4_attention_sm120.py",
        partial(_normal, 1.0),
        SQUARE,
        partial(_cosine, 0.95),
    ),
)


@dataclass(frozen=True)
class Trial:
    """One case of a gate, with what its project compares the output with."""

    case: Case
    reference: Array
    baseline: Array


def trials(gate: Gate, fmt: Format, seed: int = 0) -> list[Trial]:
    """The cases of a gate in a format; built once, for all kernels."""
    return [_trial(gate, case) for case in _cases(gate, fmt, seed)]


def _trial(gate: Gate, case: Case) -> Trial:
    inputs = case.build()
    reference = attention(case.operation, inputs, None)
    if gate.eager:
        baseline = attention(case.operation, inputs, case.format)
    else:
        baseline = case.format.round(reference)
    return Trial(replace(case, build=lambda: inputs), reference, baseline)


def accepts(gate: Gate, tried: list[Trial], kernel: Kernel, bench: Bench) -> bool | None:
    """Whether a gate would let a kernel pass; None where it has no case that the kernel claims."""
    claimed = [t for t in tried if kernel.out_of_scope(t.case) is None]
    return all(_accepts(gate, t, kernel, bench) for t in claimed) if claimed else None


def _accepts(gate: Gate, tried: Trial, kernel: Kernel, bench: Bench) -> bool:
    inputs = tried.case.build()
    operation = kernel.resolve(tried.case.operation, inputs["q"].shape[3])
    try:
        out = run(kernel, operation, inputs, bench).outputs[0].values
    except KernelError:
        return False
    if not np.isfinite(out).all():
        return False
    return gate.accepts(Sides(out, tried.reference, tried.baseline), tried.case.format)


def _cases(gate: Gate, fmt: Format, seed: int) -> Iterator[Case]:
    plan = Plan("attention", fmt, seed=seed)
    for number, (axes, operation) in enumerate(gate.cases):
        recipe = partial(_qkv, gate, axes)
        yield plan.attention("peers", f"{gate.name}-{number}", axes, recipe, operation=operation)


def _qkv(gate: Gate, axes: Axes, draws: Draws) -> Arrays:
    return {
        "q": gate.draw(draws, axes.q),
        "k": gate.draw(draws, axes.k),
        "v": gate.draw(draws, axes.v),
    }


def attention(operation: Operation, inputs: Inputs, eager: Format | None) -> Array:
    """Attention in binary64, or with everything that eager code stores rounded to a format.

    Without error bound.
    """

    def stored(x: Array) -> Array:
        return x if eager is None else eager.round(x)

    q, k, v = (inputs[name].values for name in "qkv")
    repeat = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, repeat, axis=1), np.repeat(v, repeat, axis=1)
    scale = operation.scale if operation.scale is not None else q.shape[3] ** -0.5
    s = stored(stored(q @ k.swapaxes(2, 3)) * scale)
    if operation.softcap is not None:
        s = stored(operation.softcap * np.tanh(s / operation.softcap))
    s = np.where(_visible(operation, q.shape[2], k.shape[2]), s, -np.inf)
    m = s.max(axis=-1, keepdims=True)
    e = np.exp(s - np.where(np.isfinite(m), m, 0.0))
    total = e.sum(axis=-1, keepdims=True)
    return stored(stored(e / np.where(total == 0, 1.0, total)) @ v)


def _visible(operation: Operation, n_q: int, n_k: int) -> NDArray[np.bool_]:
    i, j = np.arange(n_q)[:, None] + n_k - n_q, np.arange(n_k)
    keep = np.ones((n_q, n_k), np.bool_)
    if operation.causal:
        keep &= j <= i
    if operation.window is not None:
        keep &= (j >= i - operation.window[0]) & (j <= i + operation.window[1])
    return keep


def table(formats: tuple[str, ...], seed: int = 0) -> dict[str, Any]:
    """Control -> format -> gate -> 'accepted', 'rejected' or '' (not applicable)."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    with Worker(seconds=20.0, memory_bytes=MEMORY) as worker:
        everything = members(worker.list_kernels(), expected_table())
        bench = Bench(Oracle(audit=0), worker, grading=False)
        for name in formats:
            fmt = format_named(name)
            prepared = [(gate, trials(gate, fmt, seed)) for gate in GATES]
            for m in everything:
                if m.kind != "cheat" and m.operation == "attention" and m.format == name:
                    kernel = load(worker, m.kernel)
                    row = {g.name: WORDS[accepts(g, t, kernel, bench)] for g, t in prepared}
                    found.setdefault(m.kernel, {})[name] = row
    rules = {g.name: {"rule": g.rule, "source": g.source} for g in GATES}
    return {"gates": rules, "kernels": found}


WORDS = {True: "accepted", False: "rejected", None: ""}
