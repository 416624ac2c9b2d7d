"""Claim: dividing by sqrt(d) keeps the variance of the scores at 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from verify.studies.document import (
    FALSE,
    HOLDS,
    LIMITED,
    Chart,
    Claim,
    Judgement,
    Line,
    Part,
    Table,
)
from verify.studies.scaling._grid import MANY, Grid

ORDER = 10
SOURCE = (
    "Vaswani et al., Attention Is All You Need, 2017, arXiv 1706.03762 (on scaled dot-product "
    "attention, and the footnote there)"
)
Variances = Mapping[tuple[int, bool], float]


def judge(variances: Variances, real: Sequence[float]) -> Judgement:
    """Near 1 for every d with the scale, and growing with d without?

    real        variances of the scaled scores in the heads of a trained model
    """
    dimensions = sorted({d for d, _ in variances})
    scaled = [variances[d, True] for d in dimensions]
    plain = [variances[d, False] for d in dimensions]
    figure = (
        f"d = {dimensions[0]} to {dimensions[-1]}: variance {min(scaled):.3g} to "
        f"{max(scaled):.3g} with the scale, {plain[0]:.3g} to {plain[-1]:.4g} without"
    )
    if max(abs(v - 1) for v in scaled) > 0.1 or any(b < 1.5 * a for a, b in pairwise(plain)):
        return Judgement(FALSE, figure)
    if not real or (min(real) >= 0.5 and max(real) <= 2):
        return Judgement(HOLDS, figure)
    limits = (
        "for independent entries of variance 1, as at the start of training. Queries that are g "
        "times larger give a variance of g^2, and in a trained model (MiniLM, d = 32) it is "
        f"{min(real):.3g} to {max(real):.3g}, depending on the head"
    )
    return Judgement(LIMITED, figure, limits)


def real_variances() -> list[float]:
    """Variance of the scaled scores of each head of the committed extract of a trained model."""
    import numpy as np

    from verify.studies.real import LAYERS, D, layer

    found = []
    for number in range(LAYERS):
        q, k, _ = layer(number)
        found += [float(np.var(a @ b.T)) / D for a, b in zip(q[0], k[0], strict=True)]
    return found


def part(grid: Grid, *, small: bool = False) -> Part:
    """The variances, as a picture."""
    dimensions = grid.shape.dimensions
    real = real_variances()
    x = tuple(float(d) for d in dimensions)
    lines = tuple(
        Line(name, x, tuple(grid.variances[d, scaled] for d in dimensions))
        for name, scaled in (("with 1/sqrt(d)", True), ("without", False))
    )
    rows = (
        ("heads of a trained model (MiniLM)", min(real), sorted(real)[len(real) // 2], max(real)),
    )
    return Part(
        name="unit_variance",
        title="Does 1/sqrt(d) keep the variance at 1?",
        text=(
            "A score is a sum of d products. The sum of d independent terms of variance 1 has "
            "variance d: dividing by the square root of d brings it back to 1."
        ),
        claims=(
            Claim(
                "If the entries of q and k are independent with variance 1, dividing by sqrt(d) "
                "keeps the variance of the scores at 1, whatever d is.",
                SOURCE,
                judge(grid.variances, real),
            ),
        ),
        charts=(
            Chart(
                "Variance of the scores",
                f"Exact variance of {MANY} x {MANY} scores. Without the scale it is d.",
                "head dimension d",
                "variance",
                lines,
                x_base=2,
                y_base=10,
            ),
        ),
        tables=(
            Table(
                "Variance of scaled scores where nothing is independent",
                ("inputs", "least", "median", "largest"),
                rows,
                "The heads with the sharpest attention of each of six layers, one sentence.",
            ),
        ),
    )
