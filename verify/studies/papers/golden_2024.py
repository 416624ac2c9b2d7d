"""Golden et al. 2024: does flash attention deviate ten times more than plain attention in bf16?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import references
from verify.integers import Draws
from verify.studies.document import (
    FALSE,
    HOLDS,
    LIMITED,
    NOT_MEASURED,
    Chart,
    Claim,
    Judgement,
    Line,
    Part,
    Table,
)
from verify.studies.running import Array, array, attention, rmse, stored, tensor

ORDER = 2024.4
SOURCE = (
    "Golden et al., Is Flash Attention Stable?, 2024, arXiv 2405.02803 (abstract; the trends from "
    "a summary; neither the values of its plots nor its code could be obtained)"
)
FORMATS = ("bf16", "fp16", "fp32")
KINDS = ("plain", "flash, state in the format", "flash, state in binary32")


@dataclass(frozen=True)
class Deviation:
    """Largest difference and RMSE from the truth of the stored and of the unrounded inputs."""

    largest: float
    rmse: float
    unrounded: float


def run(kind: str, inputs: tuple[Array, Array, Array], fmt: str, block: int) -> Array:
    """One kernel: everything stored in the format, or the state between tiles in binary32."""
    from verify.studies.simulations import LowState

    if kind == "plain":
        return attention(f"textbook-attention-two-pass[scores={fmt}]", *inputs, fmt)
    if kind == "flash, state in binary32":
        return attention(f"textbook-attention-online[block={block}]", *inputs, fmt)
    low = LowState(block=block, scores=fmt, state=fmt).kernel()
    return array(low(*(tensor(x, fmt) for x in inputs), scale=inputs[0].shape[-1] ** -0.5))


def deviations(
    n: int, n_q: int, d: int, tiles: tuple[int, ...], formats: tuple[str, ...] = FORMATS
) -> dict[tuple[str, str, int], Deviation]:
    """By format, kind and tile size, at one length."""
    draws = Draws(f"study golden {n}")
    raw = tuple(draws.normal((1, 1, rows, d)) for rows in (n_q, n, n))
    before = references.attention(*raw).output.hi
    found = {}
    for fmt in formats:
        own = (stored(raw[0], fmt), stored(raw[1], fmt), stored(raw[2], fmt))
        truth = references.attention(*own).output.hi
        for kind in KINDS:
            for tile in tiles[:1] if kind == "plain" else tiles:
                out = run(kind, own, fmt, tile)
                largest = float(np.abs(out - truth).max())
                found[fmt, kind, tile] = Deviation(largest, rmse(out, truth), rmse(out, before))
    return found


Table_ = Mapping[int, Mapping[tuple[str, str, int], Deviation]]


def ratio(table: Table_, n: int, kind: str, tile: int, plain_tile: int) -> float:
    """RMSE of a flash kernel in bf16 over that of plain attention."""
    return table[n]["bf16", kind, tile].rmse / table[n]["bf16", "plain", plain_tile].rmse


def judge_ten(table: Table_, tiles: tuple[int, ...]) -> Judgement:
    """Ten times more than plain attention, in bf16?"""
    lengths = sorted(table)
    low = [ratio(table, n, KINDS[1], tiles[0], tiles[0]) for n in lengths]
    real = [ratio(table, n, KINDS[2], tiles[0], tiles[0]) for n in lengths]
    figure = (
        f"n = {lengths[0]} to {lengths[-1]}, tiles of {tiles[0]}: with all state in bf16 "
        f"{low[0]:.2g} to {low[-1]:.2g} times the RMSE of plain attention; with the state in "
        f"binary32, as kernels keep it, {real[0]:.2g} to {real[-1]:.2g} times"
    )
    if max(real) >= 5:
        return Judgement(HOLDS, figure)
    only = "only where row sum and output are kept in bf16 between tiles"
    if max(low) >= 5:
        return Judgement(LIMITED, figure, only)
    limits = f"a factor above 1 was found {only}" if max(low) > 1.2 > max(real) else ""
    return Judgement(FALSE, figure, limits)


def judge_trends(table: Table_, tiles: tuple[int, ...]) -> Judgement:
    """More mantissa bits, less; longer, more; larger tiles, less?"""
    lengths = sorted(table)
    last = table[lengths[-1]]
    by_format = [last[fmt, KINDS[1], tiles[0]].rmse for fmt in FORMATS]
    grows = [ratio(table, n, KINDS[1], tiles[0], tiles[0]) for n in lengths]
    by_tile = [last["bf16", KINDS[1], tile].rmse for tile in tiles]
    figure = (
        f"RMSE at n = {lengths[-1]} in bf16, fp16, fp32: "
        f"{by_format[0]:.2g}, {by_format[1]:.2g}, {by_format[2]:.2g}; over plain attention "
        f"{grows[0]:.2g} at n = {lengths[0]}, {grows[-1]:.2g} at n = {lengths[-1]}; tiles of "
        f"{tiles[0]} and {tiles[-1]}: {by_tile[0]:.2g} and {by_tile[-1]:.2g}"
    )
    holds = by_format == sorted(by_format, reverse=True) and grows[-1] > grows[0]
    holds = holds and by_tile[-1] < by_tile[0]
    limits = "seen with the state in the format; with binary32 state length and tiles hardly matter"
    return Judgement(LIMITED, figure, limits) if holds else Judgement(FALSE, figure)


def part(*, small: bool = False) -> Part:
    """Measure, judge, and lay out."""
    lengths = (64, 256) if small else (256, 512, 1024, 2048, 4096)
    tiles = (16, 64) if small else (64, 256)
    table = {n: deviations(n, 16 if small else 64, 64, tiles) for n in lengths}
    rows = tuple(
        (f"{fmt}, {kind}, tile {tile}", n, d.largest, d.rmse, d.unrounded)
        for n in (lengths[0], lengths[-1])
        for (fmt, kind, tile), d in table[n].items()
        if (fmt, kind) != ("fp32", KINDS[1])  # the same as with binary32 state
    )
    lines = tuple(
        Line(
            f"{kind}, {fmt}",
            tuple(float(n) for n in lengths),
            tuple(table[n][fmt, kind, tiles[0]].rmse for n in lengths),
        )
        for fmt in ("bf16", "fp16")
        for kind in KINDS
    )
    return Part(
        name="golden_2024",
        title="Is flash attention less accurate than plain attention?",
        text=(
            "Flash attention visits the keys in tiles and rescales its row sum and output at each. "
            "What that costs depends on the format in which both are kept in between: the "
            "simulation keeps them in the input format, real kernels in binary32. Plain attention "
            "stores scores and P in the input format."
        ),
        claims=(
            Claim(
                "In bf16, a forward pass of flash attention deviates about ten times more than "
                "baseline attention.",
                SOURCE,
                judge_ten(table, tiles),
            ),
            Claim(
                "The deviation falls with more mantissa bits, grows with sequence length and is "
                "smaller with larger tiles.",
                SOURCE,
                judge_trends(table, tiles),
            ),
            Claim(
                "In training, flash attention moves the weights 2 to 5 times less than low "
                "precision does.",
                SOURCE,
                Judgement(NOT_MEASURED, "no figure", "it needs training runs, which are not here"),
            ),
        ),
        charts=(
            Chart(
                "Error of plain and flash attention",
                f"RMSE against the truth of the stored inputs; normal inputs, d = 64, tiles of "
                f"{tiles[0]} keys. Lower is better.",
                "number of keys n",
                "RMSE",
                lines,
                x_base=2,
                y_base=10,
            ),
        ),
        tables=(
            Table(
                "Deviation from certified truth",
                ("kernel", "n", "largest, stored", "RMSE, stored", "RMSE, unrounded"),
                rows,
                "The paper states a factor; there is no table to stand beside. Errors fall with n "
                "because the outputs do: an average over more keys is smaller.",
            ),
        ),
    )
