"""Claim: PyTorch and JAX use the stable form."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from verify.integers import Draws
from verify.studies.document import (
    FALSE,
    HOLDS,
    LIMITED,
    NOT_MEASURED,
    Claim,
    Judgement,
    Part,
    Table,
)
from verify.studies.running import Array, array, tensor
from verify.studies.scaling._grid import FORMATS, Grid

ORDER = 80
SOURCE = "the text behind this project"
OFFSETS = (64.0, 256.0, -256.0, 512.0)
Softmax = Callable[[Array, str], Array]


@dataclass(frozen=True)
class Stability:
    """What a library's softmax did in one format.

    finite      of the rows with scores of 1000, of the largest numbers, and of both signs
    same        share of rows whose output is the same, bit for bit, after every score was moved by
                an offset (exactly, in that format)
    """

    finite: float
    same: float


def torch_softmax(x: Array, fmt: str) -> Array:
    """torch.softmax along the last axis."""
    import torch

    return array(torch.softmax(tensor(x, fmt), dim=-1))


def jax_softmax(x: Array, fmt: str) -> Array:
    """jax.nn.softmax along the last axis."""
    jax = importlib.import_module("jax")
    names = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}
    made = jax.numpy.asarray(x.astype(np.float32)).astype(names[fmt])
    return np.asarray(jax.nn.softmax(made, axis=-1).astype("float32"), np.float64)


def large_rows(fmt: str) -> Array:
    """Rows whose exponentials overflow in the format."""
    from verify.formats import format_named

    top = format_named(fmt).largest
    return np.array([[1000, 1001, 999], [top, top / 2, 1], [top, -top, 0], [-top, -top, -top]])


def stability(softmax: Softmax, fmt: str) -> Stability:
    """Run a library's softmax on large rows, and on rows and the same rows moved."""
    from verify.formats import format_named

    held = format_named(fmt).round(large_rows(fmt))
    finite = float(np.mean(np.isfinite(softmax(held, fmt)).all(axis=-1)))
    # Multiples of 4 below 256 in magnitude: exact in every format, before and after the offset.
    x = np.asarray(4.0 * Draws("study scaling libraries").integers(-16, 17, (64, 24)), np.float64)
    plain = softmax(x, fmt)
    moved = [softmax(x + c, fmt) for c in OFFSETS]
    same = np.mean([(plain == m).all(axis=-1).mean() for m in moved])
    return Stability(finite, float(same))


def measure() -> dict[str, dict[str, Stability] | None]:
    """By library and format; None for a library that is not installed."""
    libraries: dict[str, Softmax] = {"torch": torch_softmax, "jax": jax_softmax}
    return {
        name: {fmt: stability(softmax, fmt) for fmt in FORMATS}
        if importlib.util.find_spec(name) is not None
        else None
        for name, softmax in libraries.items()
    }


def version(name: str) -> str:
    """The installed version of a library."""
    from importlib.metadata import version as installed

    return f"{name} {installed(name)}"


def judge(found: Mapping[str, Mapping[str, Stability] | None]) -> Judgement:
    """Are all large rows finite, and does an offset change no bit?"""
    there = {name: formats for name, formats in found.items() if formats is not None}
    missing = [name for name in found if name not in there]
    if not there:
        return Judgement(NOT_MEASURED, "nothing was run", f"not installed: {', '.join(missing)}")
    figure = "; ".join(
        f"{name}: {100 * min(s.finite for s in formats.values()):.0f} % of the rows with huge "
        f"scores finite, {100 * min(s.same for s in formats.values()):.0f} % of the rows unchanged "
        "bit for bit when all scores move"
        for name, formats in there.items()
    )
    if any(s.finite < 1 for formats in there.values() for s in formats.values()):
        return Judgement(FALSE, figure)
    limits = [f"{name} is not installed here and was not measured" for name in missing]
    limits += [
        f"{name} changes bits under an offset"
        for name, formats in there.items()
        if any(s.same < 1 for s in formats.values())
    ]
    return Judgement(LIMITED, figure, "; ".join(limits)) if limits else Judgement(HOLDS, figure)


def part(grid: Grid, *, small: bool = False) -> Part:
    """What the libraries did."""
    found = measure()
    rows = tuple(
        (
            f"{version(name)}, {fmt}" if formats is not None else f"{name} (not installed), {fmt}",
            100 * formats[fmt].finite if formats is not None else None,
            100 * formats[fmt].same if formats is not None else None,
        )
        for name, formats in found.items()
        for fmt in FORMATS
    )
    return Part(
        name="libraries",
        title="What do PyTorch and JAX do?",
        text=(
            "A softmax that subtracts the maximum survives scores of any size, and gives the same "
            "bits when all scores of a row move by the same amount, because only differences enter."
        ),
        claims=(Claim("PyTorch and JAX use the stable form.", SOURCE, judge(found)),),
        tables=(
            Table(
                "Softmax of the libraries",
                ("library and format", "huge rows finite (%)", "unchanged by an offset (%)"),
                rows,
                "Huge rows: 1000, 1001, 999, and rows of the largest numbers of the format.",
            ),
        ),
    )
