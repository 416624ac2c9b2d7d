"""Vectors: the committed corpus of small cases with their truth, for programs in any language.

`python -m verify.vectors` writes `references/vectors/` anew: one safetensors file for each
operation and format, and `manifest.json`.  The generator lives here and not in `references`,
because the inputs come from the families and the truth knows nothing of them; the files lie in
`references`, because they are truth.  The layout is described in `references/vectors/README.md`.

The truth is that of mpmath, the definition (`references.exact`).  Before it is written, the
enclosure of Arb, which rests on no assumption, must overlap with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import references
from references.enclosure import Enclosure
from verify import families
from verify.audit import require_overlap
from verify.case import Arrays, Axes, Case, Inputs, Plan
from verify.declaration import Declaration
from verify.families._values import normal_qkv
from verify.formats import FORMATS
from verify.integers import Draws
from verify.operation import OPERATIONS, Operation, OperationName, direction_of
from verify.packing import LENDERS
from verify.tensor_files import Stored, serialised, sha256, write_whole
from verify.truth import Oracle

FOLDER = Path(references.__file__).parent / "vectors"
FORMAT_NAMES = ("fp16", "bf16", "fp32")
INSTALLED = ("real_minilm", "real_extract")  # measured inputs: large, and not ours to copy twice
LARGEST_OUTPUT = 600
LARGEST_INPUT = 6000
FAMILY = "options"


class Row(NamedTuple):
    """One row of the grid of options: axes, operation, and extra tensors by recipe."""

    name: str
    axes: Axes
    operation: Operation
    extras: dict[str, Callable[[Axes, Draws], Any]] = {}  # noqa: RUF012 - never changed


def _mask(axes: Axes, draws: Draws) -> Any:
    return np.asarray(draws.integers(0, 3, axes.scores) > 0)


def _mask_with_empty_row(axes: Axes, draws: Draws) -> Any:
    mask = _mask(axes, draws)
    mask[..., 1, :] = False
    return mask


def _bias(axes: Axes, draws: Draws) -> Any:
    return draws.normal(axes.scores)


def _removing_bias(axes: Axes, draws: Draws) -> Any:
    return np.where(draws.integers(0, 4, axes.scores) == 0, -np.inf, draws.normal(axes.scores))


def _row_bias(axes: Axes, draws: Draws) -> Any:
    return draws.normal((1, axes.heads, 1, axes.n_k))


def _sinks(axes: Axes, draws: Draws) -> Any:
    return draws.normal((axes.heads,))


PLAIN = Axes(5, 7, d=8, heads=2)
TALL = Axes(7, 4, d=8, heads=2)  # more queries than keys: a causal mask leaves rows empty
GROUPED = Axes(3, 6, d=8, heads=4, kv_heads=2, d_v=5, batch=2)
CAUSAL = Operation("attention", causal=True)
TOP_LEFT = Operation("attention", causal=True, corner="top-left")

GRID = (
    Row("plain", PLAIN, Operation("attention")),
    Row("one-key", Axes(2, 1, d=4), Operation("attention")),
    Row("no-keys", Axes(2, 0, d=4), Operation("attention")),
    Row("scale", PLAIN, Operation("attention", scale=0.3)),
    Row("scale-zero", PLAIN, Operation("attention", scale=0.0)),
    Row("causal", PLAIN, CAUSAL),
    Row("causal-top-left", PLAIN, TOP_LEFT),
    Row("causal-tall", TALL, CAUSAL),
    Row("causal-top-left-tall", TALL, TOP_LEFT),
    Row("window", PLAIN, Operation("attention", window=(2, 1))),
    Row("window-left", PLAIN, Operation("attention", window=(1, -1))),
    Row("window-one-key", PLAIN, Operation("attention", window=(0, 0))),
    Row("window-top-left", PLAIN, Operation("attention", window=(1, 2), corner="top-left")),
    Row("causal-window", PLAIN, Operation("attention", causal=True, window=(2, 0))),
    Row("mask", PLAIN, Operation("attention"), {"mask": _mask}),
    Row("mask-empty-row", PLAIN, Operation("attention"), {"mask": _mask_with_empty_row}),
    Row("bias", PLAIN, Operation("attention"), {"bias": _bias}),
    Row("bias-removing", PLAIN, Operation("attention"), {"bias": _removing_bias}),
    Row("bias-broadcast", PLAIN, Operation("attention"), {"bias": _row_bias}),
    Row("softcap", PLAIN, Operation("attention", softcap=1.5)),
    Row("softcap-bias", PLAIN, Operation("attention", softcap=1.5), {"bias": _bias}),
    Row("sinks", PLAIN, Operation("attention"), {"sinks": _sinks}),
    Row("sinks-causal-tall", TALL, CAUSAL, {"sinks": _sinks}),
    Row("grouped", GROUPED, Operation("attention")),
    Row("grouped-causal", GROUPED, CAUSAL),
    Row(
        "all",
        GROUPED,
        Operation("attention", 0.7, True, window=(3, 0), softcap=4.0),
        {"mask": _mask, "bias": _bias, "sinks": _sinks},
    ),
)


def _recipe(row: Row, draws: Draws) -> Arrays:
    inputs = dict(normal_qkv(row.axes, draws))
    return {**inputs, **{name: make(row.axes, draws) for name, make in row.extras.items()}}


def cases(operation: OperationName, fmt: str) -> Iterator[Case]:
    """The smallest case of every family that has a small one; for attention, every option first."""
    plan = Plan(operation, FORMATS[fmt])
    yield from _options(plan)
    for name in families.names():
        if name not in INSTALLED:
            small = [c for c in families.family(name).cases(plan) if _small(c.build())]
            yield from sorted(small, key=lambda c: sum(_sizes(c.build())))[:1]


def named(operation: OperationName, fmt: str, ids: list[str]) -> Iterator[Case]:
    """The cases with these ids, so that a new family does not change what is committed."""
    plan = Plan(operation, FORMATS[fmt])
    found = {case.id: case for case in _options(plan)}
    for name in {case.partition("/")[0] for case in ids} - {FAMILY}:
        found |= {case.id: case for case in families.family(name).cases(plan)}
    yield from (found[case] for case in ids)


def _options(plan: Plan) -> Iterator[Case]:
    """The grid of options, for attention."""
    if plan.operation == "attention":
        for row in GRID:
            recipe = partial(_recipe, row)
            yield plan.attention(
                FAMILY, row.name, row.axes, recipe, operation=row.operation, extras=row.extras
            )


def _sizes(inputs: Inputs) -> tuple[int, int]:
    """Elements of the output and of all inputs."""
    every = sum(t.bits.size for t in inputs.tensors.values())
    if "x" in inputs.tensors:
        return inputs["x"].bits.size, every
    q, v = inputs["q"].shape, inputs["v"].shape
    return q[0] * q[1] * q[2] * v[3], every


def _small(inputs: Inputs) -> bool:
    output, every = _sizes(inputs)
    return output <= LARGEST_OUTPUT and every <= LARGEST_INPUT


def tensors(case: Case) -> dict[str, Stored]:
    """Inputs and truth of a case, by the name after its id.

    Raises      OracleError where Arb contradicts mpmath.
    """
    inputs = case.build()
    found = {name: Stored(t.format.name, t.bits) for name, t in inputs.tensors.items()}
    if inputs.mask is not None:
        found["mask"] = Stored("bool", inputs.mask.astype(np.uint8))
    exact, arb = (truth(case.operation, inputs, tier) for tier in ("exact", "arb"))
    for name, enclosure in exact.items():
        if isinstance(enclosure, Enclosure):
            require_overlap(enclosure, arb[name], f"{case.id} {name}: mpmath and arb")
            for word in ("hi", "lo", "radius"):
                found[f"{name}.{word}"] = _words(getattr(enclosure, word))
            found[f"{name}.classes"] = Stored("uint8", enclosure.classes)
        else:
            found[name] = _words(enclosure)
    return found


def truth(operation: Operation, inputs: Inputs, tier: str) -> dict[str, Any]:
    """Enclosures of what a kernel should return, and the magnitude sum P|v| (attention)."""
    found = Oracle(tier, audit=0).truth(operation, inputs, Declaration())
    if found.lse is None:
        return {"output": found.output}
    return {"output": found.output, "lse": found.lse, "magnitude": found.magnitude}


def _words(values: Any) -> Stored:
    return Stored("fp64", np.ascontiguousarray(values, np.float64).view(np.uint64))


def entry(case: Case, stored: dict[str, Stored], file: str) -> dict[str, Any]:
    """A case in the manifest."""
    plain = {"scale": None, **case.operation.options()} if "q" in stored else {}
    if plain and (case.operation.causal or case.operation.window):
        plain["corner"] = case.operation.corner
    return {
        "case": case.id,
        "operation": case.operation.name,
        "format": case.format.name,
        "file": file,
        "options": plain,
        "tensors": {name: tensor.facts for name, tensor in stored.items()},
        "digest": case.build().digest,
    }


def _operations() -> list[OperationName]:
    """Those whose inputs are tensors of one format, forward."""
    forward = (name for name in OPERATIONS if direction_of(name) == "forward")
    return [name for name in forward if name not in LENDERS]


def corpus(
    committed: list[dict[str, Any]] | None = None,
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Every file by name, and the manifest; of the cases of a committed manifest where given."""
    files: dict[str, bytes] = {}
    entries = []
    for operation in _operations():
        for fmt in FORMAT_NAMES:
            name = f"{operation}-{fmt}.safetensors"
            content: dict[str, Stored] = {}
            chosen = (
                cases(operation, fmt)
                if committed is None
                else named(operation, fmt, [c["case"] for c in committed if c["file"] == name])
            )
            for case in chosen:
                stored = tensors(case)
                content |= {f"{case.id}/{key}": tensor for key, tensor in stored.items()}
                entries.append(entry(case, stored, name))
            files[name] = serialised(content)
    told = {name: {"bytes": len(raw), "sha256": sha256(raw)} for name, raw in files.items()}
    return files, {
        "schema": 1,
        "what": "attncert vectors: inputs and certified truth of small cases",
        "truth": "mpmath at 110 bits or more; every enclosure overlaps with that of Arb",
        "files": told,
        "cases": entries,
    }


def manifest(folder: Path = FOLDER) -> dict[str, Any]:
    """The committed manifest."""
    return dict(json.loads((folder / "manifest.json").read_text(encoding="utf-8")))


def text_of(manifest: dict[str, Any]) -> str:
    """The manifest as it is written: one case a line."""
    head = json.dumps({k: v for k, v in manifest.items() if k != "cases"}, indent=1)
    lines = ",\n".join(json.dumps(case) for case in manifest["cases"])
    return f'{head[:-2]},\n "cases": [\n{lines}\n]}}\n'


def write(folder: Path = FOLDER) -> None:
    """Write the corpus whole: the manifest last."""
    files, told = corpus()
    for name, raw in files.items():
        write_whole(folder / name, raw)
    write_whole(folder / "manifest.json", text_of(told).encode())


if __name__ == "__main__":
    write()
