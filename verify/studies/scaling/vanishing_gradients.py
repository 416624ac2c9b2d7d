"""Claim: in saturation the gradients vanish."""

from __future__ import annotations

from verify.studies.document import FALSE, HOLDS, LIMITED, Chart, Claim, Judgement, Part, Table
from verify.studies.scaling._grid import Grid
from verify.studies.scaling._lines import over_d, over_growth
from verify.studies.scaling.unit_variance import SOURCE

ORDER = 30
FLOOR = 1e-60
NOTE = "Exact values, rounded to three digits; 0 stands for what lies below 1e-308."
NAMES = {"scores": "scores", "q": "Q", "k": "K"}


def judge(grid: Grid) -> Judgement:
    """Is the true gradient of a typical row smaller by far without the scale?"""
    d = grid.widest
    plain = grid.points[d, 1, False].gradients
    scaled = grid.points[d, 1, True].gradients
    typical = _typical(grid, d)
    mean = plain["scores"].rms / scaled["scores"].rms
    queries = plain["q"].median / scaled["q"].median
    figure = (
        f"d = {d}, growth 1, exact: the gradient of a typical (median) row of scores is "
        f"{typical:.2g} times that with the scale; of Q {queries:.2g} times"
    )
    if typical > 0.25:
        return Judgement(FALSE, figure)
    last = grid.shape.growths[-1]
    grown = grid.points[d, last, True].gradients["scores"].median / scaled["scores"].median
    limits = []
    if grid.middle < d and (there := _typical(grid, grid.middle)) > 0.25:
        limits.append(f"for large d: at d = {grid.middle} it is {there:.2g} times")
    if mean > 0.25:
        limits.append(
            f"in typical rows: over all rows the root mean square is {mean:.2g} times that with "
            "the scale, because few rows that are not saturated keep large gradients"
        )
    if grown < 0.25:
        limits.append(
            f"with the scale they vanish too once the queries have grown {last} times "
            f"({grown:.2g} times)"
        )
    return Judgement(LIMITED, figure, "; ".join(limits)) if limits else Judgement(HOLDS, figure)


def _typical(grid: Grid, d: int) -> float:
    """The median row norm of the scores' gradient without the scale over that with it."""
    plain, scaled = (grid.points[d, 1, s].gradients["scores"].median for s in (False, True))
    return plain / scaled


def part(grid: Grid, *, small: bool = False) -> Part:
    """Norms of the true gradients."""
    middle, last = grid.middle, grid.shape.growths[-1]
    rows = tuple(
        _row(grid, d, g, scaled)
        for d in grid.shape.dimensions
        for g in sorted({1, grid.shape.growths[len(grid.shape.growths) // 2], last})
        for scaled in (True, False)
    )
    columns = [f"{n}, {kind}" for n in NAMES.values() for kind in ("median row", "rms")]
    charts = [
        Chart(
            f"True gradient of {NAMES[name]} against d",
            f"Norm of the gradient in the median row, exact; growth 1. {more}",
            "head dimension d",
            "norm of the median row",
            over_d(grid, lambda p, name=name: p.gradients[name].median),  # type: ignore[misc]
            x_base=2,
            y_base=10,
            floor=FLOOR,
        )
        for name, more in (
            ("scores", ""),
            ("q", "Without the scale the gradient of Q is not divided by sqrt(d) either."),
        )
    ]
    charts += [
        Chart(
            "True gradient of scores against growth",
            f"Norm in the median row at d = {middle}, exact: it falls exponentially in the spread "
            f"of the scores, with the scale later. Values below {FLOOR:g} are drawn there.",
            "growth of the queries",
            "norm of the median row",
            over_growth(grid, lambda p: p.gradients["scores"].median, middle),
            x_base=2,
            y_base=10,
            floor=FLOOR,
        ),
        Chart(
            "The same, mean over rows",
            f"Root mean square over rows at d = {middle}: a few rows on the verge of two keys "
            "carry it.",
            "growth of the queries",
            "root mean square of row norms",
            over_growth(grid, lambda p: p.gradients["scores"].rms, middle),
            x_base=2,
            y_base=10,
        ),
    ]
    return Part(
        name="vanishing_gradients",
        title="Do the gradients vanish?",
        text=(
            "The gradient of the scores is p times a difference, p being the probability of the "
            "key. A saturated row has probabilities next to 0 and 1 only, and both give "
            "gradients next to 0: the row can no longer be taught."
        ),
        claims=(
            Claim(
                "Without the scale, gradients vanish: those of a saturated softmax are tiny.",
                SOURCE,
                judge(grid),
            ),
        ),
        charts=tuple(charts),
        tables=(Table("Norms of true gradients", ("point", *columns), rows, NOTE),),
    )


def _row(grid: Grid, d: int, growth: int, scaled: bool) -> tuple[str | float, ...]:
    found = grid.points[d, growth, scaled].gradients
    values = [v for name in NAMES for v in (found[name].median, found[name].rms)]
    return (f"d = {d}, growth {growth}, {'with' if scaled else 'without'}", *values)
