"""Claim: subtracting the maximum changes everything in floating point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import references
from verify.formats import format_named
from verify.integers import Draws
from verify.studies.document import FALSE, HOLDS, LIMITED, Chart, Claim, Judgement, Part, Table
from verify.studies.running import Array, rows, stored
from verify.studies.scaling._grid import FORMATS, Grid
from verify.studies.scaling._lines import NAMES, formats

ORDER = 60
SOURCE = "textbook rule; Goodfellow, Bengio, Courville, Deep Learning, 2016, section 4.1"
NAIVE = "textbook-softmax-naive"
SHIFTED = "textbook-softmax-shifted[format={}]"


@dataclass(frozen=True)
class Mild:
    """Both forms where nothing overflows: largest error in units of u max p."""

    naive: float
    shifted: float


def mild_rows(count: int, n: int) -> Array:
    """Scores between -4 and 4."""
    return np.asarray(8 * Draws("study scaling mild").uniform((count, n)) - 4, np.float64)


def mild(count: int, n: int) -> dict[str, Mild]:
    """Errors on mild rows, by format; every step is rounded to the format."""
    drawn = mild_rows(count, n)
    found = {}
    for fmt in FORMATS:
        x = stored(drawn, fmt)
        truth = references.softmax(x).hi
        unit = format_named(fmt).u * truth.max(axis=1, keepdims=True)
        naive, shifted = rows(NAIVE, x, fmt), rows(SHIFTED.format(fmt), x, fmt)
        found[fmt] = Mild(
            float((np.abs(naive - truth) / unit).max()),
            float((np.abs(shifted - truth) / unit).max()),
        )
    return found


def judge(grid: Grid, found: Mapping[str, Mild]) -> Judgement:
    """Does the form without the shift fail where the shifted one does not?"""
    d, last = grid.widest, grid.shape.growths[-1]
    lost = {fmt: grid.points[d, last, False].formats[fmt].lost for fmt in FORMATS}
    kept = max(f.kept_lost for p in grid.points.values() for f in p.formats.values())
    figure = (
        f"d = {d}, growth {last}, no scale: rows lost to NaN without the shift "
        + ", ".join(f"{fmt} {100 * share:.0f} %" for fmt, share in lost.items())
        + f"; with it {100 * kept:.0f} % at every point"
    )
    if min(lost.values()) < 0.5 or kept > 0:
        return Judgement(FALSE, figure)
    if any(m.naive > 2 * m.shifted for m in found.values()):
        return Judgement(HOLDS, figure)
    limits = (
        "where an exponential overflows: from scores of 11.09 on in fp16, of 88.72 in bf16 and "
        "fp32. On scores between -4 and 4 both forms are alike: largest errors "
        + ", ".join(f"{m.naive:.2g} u and {m.shifted:.2g} u ({f})" for f, m in found.items())
    )
    return Judgement(LIMITED, figure, limits)


def _first_lost(grid: Grid) -> tuple[tuple[str | int, ...], ...]:
    """By format and scale: the first growth with a lost row, for each d."""
    found: list[tuple[str | int, ...]] = []
    for scaled, name in NAMES:
        for fmt in FORMATS:
            firsts = [
                next((p.growth for p in grid.over_growth(d, scaled) if p.formats[fmt].lost), "-")
                for d in grid.shape.dimensions
            ]
            found.append((f"{fmt}, {name}", *firsts))
    return tuple(found)


def part(grid: Grid, *, small: bool = False) -> Part:
    """Rows lost without the shift, and both forms on mild scores."""
    found = mild(*((8, 16) if small else (256, 128)))
    table = tuple((fmt, m.naive, m.shifted) for fmt, m in found.items())
    return Part(
        name="shift_floating",
        title="And in floating point?",
        text=(
            "The exponential of a large score exceeds every number of the format; infinity divided "
            "by infinity is NaN. After the shift the largest exponential is 1. The maximum is the "
            "one number whose subtraction costs nothing and always suffices."
        ),
        claims=(
            Claim(
                "Subtracting the maximum changes everything in floating point.",
                SOURCE,
                judge(grid, found),
            ),
        ),
        charts=(
            Chart(
                "Rows lost without the shift",
                f"Share of rows in which softmax without the shift gives NaN; d = {grid.middle}. "
                "With the shift no row is lost.",
                "growth of the queries",
                "share of rows",
                formats(grid, lambda f: f.lost, grid.middle),
                x_base=2,
            ),
        ),
        tables=(
            Table(
                "Growth from which rows are lost without the shift",
                ("format and scale", *(f"d = {d}" for d in grid.shape.dimensions)),
                _first_lost(grid),
                "The smallest growth of the study at which a row is NaN; - where none is.",
            ),
            Table(
                "Both forms on scores between -4 and 4",
                ("format", "largest error without the shift (u)", "with it (u)"),
                table,
                "Every step is rounded to the format; u is its unit roundoff, and errors are "
                "relative to the largest probability of the row.",
            ),
        ),
    )
