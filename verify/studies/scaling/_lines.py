"""Lines over d and over the growth, for the pictures of the study."""

from __future__ import annotations

from collections.abc import Callable

from verify.studies.document import Line
from verify.studies.scaling._grid import FORMATS, Grid, InFormat, Point

NAMES = ((True, "with 1/sqrt(d)"), (False, "without"))


def over_d(grid: Grid, value: Callable[[Point], float], growth: int = 1) -> tuple[Line, ...]:
    """A value against d at one growth, with and without the scale."""
    x = tuple(float(d) for d in grid.shape.dimensions)
    return tuple(
        Line(name, x, tuple(value(p) for p in grid.over_d(growth, scaled)))
        for scaled, name in NAMES
    )


def over_growth(grid: Grid, value: Callable[[Point], float], d: int) -> tuple[Line, ...]:
    """A value against the growth at one d, with and without the scale."""
    x = tuple(float(g) for g in grid.shape.growths)
    return tuple(
        Line(name, x, tuple(value(p) for p in grid.over_growth(d, scaled)))
        for scaled, name in NAMES
    )


def formats(grid: Grid, value: Callable[[InFormat], float], d: int) -> tuple[Line, ...]:
    """A value of each format against the growth at one d, with and without the scale."""
    x = tuple(float(g) for g in grid.shape.growths)
    return tuple(
        Line(
            f"{fmt}, {name}",
            x,
            tuple(value(p.formats[fmt]) for p in grid.over_growth(d, scaled)),
        )
        for scaled, name in NAMES
        for fmt in FORMATS
    )
