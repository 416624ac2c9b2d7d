"""Claim: without the scale, softmax saturates."""

from __future__ import annotations

import math

from verify.studies.document import FALSE, HOLDS, LIMITED, Chart, Claim, Judgement, Part
from verify.studies.scaling._grid import SATURATED, Grid
from verify.studies.scaling._lines import over_d, over_growth
from verify.studies.scaling.unit_variance import SOURCE

ORDER = 20


def judge(grid: Grid) -> Judgement:
    """Are many rows saturated without the scale, and none with it?"""
    d, last = grid.widest, grid.shape.growths[-1]
    plain, scaled = grid.points[d, 1, False], grid.points[d, 1, True]
    least = grid.points[grid.shape.dimensions[0], 1, False]
    grown = grid.points[d, last, True]
    figure = (
        f"d = {d}: {100 * plain.saturated:.0f} % of the rows give one key more than {SATURATED} of "
        f"the probability without the scale, {100 * scaled.saturated:.0f} % with it; mean entropy "
        f"{plain.entropy:.2g} against {scaled.entropy:.3g} nats of at most "
        f"{math.log(grid.shape.n_k):.3g}"
    )
    if plain.saturated < 0.25 or scaled.saturated > plain.saturated / 4:
        return Judgement(FALSE, figure)
    limits = []
    if least.saturated < plain.saturated / 2:
        limits.append(
            f"it depends on d: at d = {least.d}, {100 * least.saturated:.0f} % of the rows"
        )
    if grown.saturated > 0.25:
        limits.append(
            f"the scale protects only while weights are small: grown {last} times, "
            f"{100 * grown.saturated:.0f} % of the rows saturate with it"
        )
    return Judgement(LIMITED, figure, "; ".join(limits)) if limits else Judgement(HOLDS, figure)


def part(grid: Grid, *, small: bool = False) -> Part:
    """Saturated rows, entropy and largest probability."""
    middle = grid.middle
    return Part(
        name="saturation",
        title="Does softmax saturate without it?",
        text=(
            "When scores spread widely, the largest one takes nearly all the probability: the row "
            "points at one key, and its entropy, the logarithm of how many keys share the "
            "attention, falls to 0."
        ),
        claims=(
            Claim(
                "Without the scale, scores grow with d and push softmax into saturation.",
                SOURCE,
                judge(grid),
            ),
        ),
        charts=(
            Chart(
                "Saturated rows against d",
                f"Share of rows in which one key has more than {SATURATED} of the probability; "
                "growth 1.",
                "head dimension d",
                "share of rows",
                over_d(grid, lambda p: p.saturated),
                x_base=2,
            ),
            Chart(
                "Entropy against d",
                "Mean entropy of the attention rows, exact probabilities; growth 1. The level line "
                "is a row that attends to all keys alike.",
                "head dimension d",
                "entropy (nats)",
                over_d(grid, lambda p: p.entropy),
                x_base=2,
                levels=((math.log(grid.shape.n_k), "all keys alike"),),
            ),
            Chart(
                "Saturated rows against growth",
                f"The same share at d = {middle} when the queries have grown: the scale delays "
                "saturation by a factor of sqrt(d), and does not prevent it.",
                "growth of the queries",
                "share of rows",
                over_growth(grid, lambda p: p.saturated, middle),
                x_base=2,
            ),
            Chart(
                "Largest probability against growth",
                f"Mean over rows of the largest probability, d = {middle}.",
                "growth of the queries",
                "largest probability",
                over_growth(grid, lambda p: p.largest, middle),
                x_base=2,
            ),
        ),
    )
