"""Exact scores at levels on both sides of every point where exp overflows or underflows.

`top` rows have their maximum at the level, `tail` rows have one key at 0 and all others there, so
that the shift, the exponential and P are tried at each threshold in turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families._exact_scores import exact_qk, near, rows_that_fit
from verify.families._thresholds import THRESHOLDS, UNIT, below, value_below
from verify.families._values import with_ones
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws
from verify.operation import Operation

NAME = "score_ladder"
FINE = -6  # attention scores are multiples of 2^FINE
DECADES = (1000, 10_000, 100_000)
SPREAD = 4 * 64  # the other scores of a row lie within 4 of the level
LIVE = 5  # the key at 0 of `tail` rows
FAR = 225  # 225 2^120 = 2.99e38
# (unit, scale) of the highest rungs, by whether the format is as narrow as fp16. With 1/sqrt(d) the
# product q . k is 8 times the score and must not overflow, hence 2^117.
FAR_UNITS = {False: ((117, None), (120, 1.0)), True: ((13, None),)}
SMOKE = ("fp32-overflow-above-top", "fp32-zero-below-top")
RARE = tuple(f"-{decade}-tail" for decade in DECADES)
Level = tuple[int, int]  # (m, e) stands for m 2^e


def levels(fmt: Format) -> dict[str, Level]:
    """The levels of attention scores, by name: multiples of 2^FINE."""
    found: dict[str, Level] = {}
    for owner in dict.fromkeys(("fp32", fmt.name)):
        for kind, threshold in vars(THRESHOLDS[owner]).items():
            units = below(threshold, FINE)
            _add(found, f"{owner}-{kind}", units, FINE)
    for decade in DECADES:
        found |= {f"{sign}{decade}": (int(f"{sign}{decade * 64}"), FINE) for sign in ("", "-")}
    if fmt.emax == 15:
        found |= {"65504": (65504 * 64, FINE), "65536": (65536 * 64, FINE)}
    return found


def row_levels(fmt: Format) -> dict[str, Level]:
    """The levels of x: the two values of the format itself around each threshold."""
    found: dict[str, Level] = {}
    for owner in dict.fromkeys(("fp32", fmt.name)):
        for kind, threshold in vars(THRESHOLDS[owner]).items():
            units, exponent = value_below(threshold, fmt)
            _add(found, f"{owner}-{kind}", units, exponent)
    for decade in DECADES:
        if decade < fmt.largest:
            units, exponent = value_below(decade << UNIT, fmt)
            found |= {f"{decade}": (units, exponent), f"-{decade}": (-units, exponent)}
    if fmt.emax == 15:
        found |= {"65472": (2046, 5), "65504": (2047, 5), "-65504": (-2047, 5)}
    elif fmt.emax == 127:
        found |= {"3e38": (FAR, 120), "-3e38": (-FAR, 120)}
    return found


def _add(found: dict[str, Level], name: str, units: int, exponent: int) -> None:
    """Both sides of a threshold, unless the ladder has them under another name."""
    if (units, exponent) not in found.values():
        found[f"{name}-below"] = (units, exponent)
        found[f"{name}-above"] = (units + 1, exponent)


def _around(name: str, units: int, shape: tuple[int, int], step: int, draws: Draws) -> Array:
    """Entries on the level's side of its threshold: up from an `above`, else down."""
    gaps = near(draws, *shape, 0, SPREAD // step) * step
    return np.asarray(units - gaps if name.endswith("-above-tail") else units + gaps, np.float64)


def _qkv(fmt: Format, axes: Axes, name: str, units: int, draws: Draws) -> Arrays:
    rows = rows_that_fit(fmt, axes, abs(units) + SPREAD + 1)
    scores = _around(name, units, (rows, axes.n_k), 1, draws)
    v = with_ones(draws, axes)
    if name.endswith("-tail"):
        scores[:, LIVE] = 0
        weight = np.where(np.arange(axes.n_k) == LIVE, 1.0, _tail_weight(fmt, units))
        v *= weight[:, None]
    return {**exact_qk(fmt, axes, scores.astype(np.int64), FINE), "v": v}


def _tail_weight(fmt: Format, units: int) -> float:
    """A power of two near e^-level, so that keys at the level still show in the output."""
    largest = 11 if fmt.emax == 15 else 118  # the sum of all |v| must not overflow binary32
    return float(np.ldexp(1.0, min(-units * 23 // (16 * 64), largest, fmt.emax - 4)))


def _far_qkv(
    fmt: Format, axes: Axes, top: int, unit: int, scale: float | None, draws: Draws
) -> Arrays:
    """Ties at top 2^unit; every other score is at least 2^unit lower."""
    drop = draws.integers(0, 2, (1, axes.n_k)) * draws.integers(1, 31, (1, axes.n_k))
    drop[0, 0] = 0
    return {**exact_qk(fmt, axes, top - drop, unit, scale), "v": with_ones(draws, axes)}


def _x(fmt: Format, shape: tuple[int, int], name: str, level: Level, draws: Draws) -> Array:
    units, exponent = level
    step = 1 << max(0, -2 - exponent)  # the entries are 1/4 apart, or one spacing of the format
    gaps = -near(draws, *shape, 0, 16) * step
    x = np.ldexp(units + np.where(name.endswith("-above-tail"), gaps, -gaps), exponent)
    if name.endswith("-tail"):
        x[:, LIVE] = 0
    return fmt.round(x, saturate=True)


def _named(found: dict[str, Level]) -> Iterator[tuple[str, Level]]:
    for name, level in found.items():
        yield f"{name}-top", level
        if level[0] < 0:
            yield f"{name}-tail", level


def _value(level: Level) -> float:
    return float(np.ldexp(float(level[0]), level[1]))


def _attention(plan: Plan) -> Iterator[Case]:
    axes = Axes(16, 16)
    for name, level in _named(levels(plan.format)):
        yield plan.attention(
            NAME,
            name,
            axes,
            partial(_qkv, plan.format, axes, name, level[0]),
            smoke=name in SMOKE,
            extensive=name in RARE,
            notes={"level": _value(level)},
        )
    axes = Axes(4, 16)
    for unit, scale in FAR_UNITS[plan.format.emax == 15]:
        for top in (FAR, -FAR + 30):
            value = _value((top, unit))
            yield plan.attention(
                NAME,
                f"{value:.0e}-top",
                axes,
                partial(_far_qkv, plan.format, axes, top, unit, scale),
                operation=Operation("attention", scale=scale),
                notes={"level": value},
            )


def _rows(plan: Plan) -> Iterator[Case]:
    shape = (4, 64)
    for name, level in _named(row_levels(plan.format)):
        yield plan.rows(
            NAME,
            name,
            shape,
            partial(_x, plan.format, shape, name, level),
            smoke=name in SMOKE,
            extensive=name in RARE,
            notes={"level": _value(level)},
        )


def _cases(plan: Plan) -> Iterator[Case]:
    return _attention(plan) if plan.operation == "attention" else _rows(plan)


FAMILY = Family(
    name=NAME,
    hypothesis="The kernel overflows, underflows or loses its maximum at one of exp's thresholds.",
    effect="Rows whose scores pass a threshold give NaN, infinity or zeros; models without "
    "query-key normalisation reach all of them.",
    source="Blanchard, Higham, Higham, IMA J. Numer. Anal. 41(4), 2021, section 3; thresholds "
    "ln(Omega + ulp/2), ln(2^emin), ln(lambda/2) of each format.",
    cases=_cases,
)
